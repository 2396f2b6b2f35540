// Figures of tiles in registers, for pictures and their tests.
#pragma once
#include <optional>
#include <string>

#include "jit/picture/picture.h"
#include "lang/tile_layout.h"

namespace tegula::picture {

struct Holder {
    int thread = 0, reg = 0;
};
/// The first thread that holds a point, and its register; nullopt: none does.
std::optional<Holder> holder_of(const TileLayout& l, const TileLayout::Point& p);
int holders(const TileLayout& l);  ///< threads that hold each element
/// The first rows and columns of a tile: who holds each element. What is left out is noted.
Figure element_holders(const std::string& title, const TileLayout& l, Picture& out);
/// The first threads: what each holds.
Figure thread_contents(const std::string& title, const TileLayout& l);

}  // namespace tegula::picture
