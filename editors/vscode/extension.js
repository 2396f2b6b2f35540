// Starts `tegula lsp` and shows what kernels compile to. Everything else is the server's.
const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

function settings() {
  const own = vscode.workspace.getConfiguration('tegula');
  return { importRoot: own.get('importRoot'), arch: own.get('arch'), hints: own.get('hints') };
}

async function start() {
  const own = vscode.workspace.getConfiguration('tegula');
  const log = own.get('log');
  const server = { command: own.get('command'), args: log ? ['lsp', '--log', log] : ['lsp'] };
  client = new LanguageClient('tegula', 'Tegula', server, {
    documentSelector: [{ language: 'tile' }],
    initializationOptions: settings(),
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher('**/*.tile') }
  });
  await client.start();
}

// A kind, and a kernel of the file in front: {editor, kind, kernel}, or nothing.
async function choose(kinds) {
  const editor = vscode.window.activeTextEditor;
  if (!editor || editor.document.languageId !== 'tile') return;
  const kind = await vscode.window.showQuickPick(kinds);
  const symbols = await vscode.commands.executeCommand('vscode.executeDocumentSymbolProvider', editor.document.uri);
  const kernels = (symbols || []).filter(s => /^kernel\b/.test(s.detail || '') || s.kind === vscode.SymbolKind.Function).map(s => s.name);
  const kernel = kind && (kernels.length > 1 ? await vscode.window.showQuickPick(kernels) : kernels[0]);
  return kernel && { editor, kind, kernel };
}

// A picture of a kernel beside the source.
async function showPicture() {
  const kinds = ['resources', 'pipeline', 'smem', 'banks', 'sectors', 'place', 'fragment', 'convert', 'roofline', 'grid', 'tune', 'layout', 'bits', 'source'];
  const chosen = await choose(kinds);
  if (!chosen) return;
  const { editor, kind, kernel } = chosen;
  const asked = { uri: editor.document.uri.toString(), kind, kernel, format: 'html' };
  const drawn = await client.sendRequest('tegula/viz', asked).then(answer => answer.html, error => vscode.window.showErrorMessage(error.message) && '');
  if (!drawn) return;
  const column = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
  vscode.window.createWebviewPanel('tegula.picture', `${kind} of ${kernel}`, column, { enableScripts: kind === 'source' }).webview.html = drawn;
}

// The text of a stage beside the source, made anew when the source is saved.
async function showArtifact(texts) {
  const arch = settings().arch;
  const chosen = await choose(['ir', 'ir:final', `explain@${arch}`, `cuda@${arch}`, `ptx@${arch}`, 'asm', `resources@${arch}`]);
  if (!chosen) return;
  const { editor, kind, kernel } = chosen;
  const uri = vscode.Uri.parse(`tegula-artifact:/${kernel}/${kind.replace(/[:@]/g, '-')}`);
  texts.wanted.set(uri.toString(), { textDocument: { uri: editor.document.uri.toString() }, kernel, kind });
  texts.changed.fire(uri);
  await vscode.window.showTextDocument(uri, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
}

async function activate(context) {
  const texts = { wanted: new Map(), changed: new vscode.EventEmitter() };
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider('tegula-artifact', {
      onDidChange: texts.changed.event,
      provideTextDocumentContent: uri =>
        client.sendRequest('tegula/artifact', texts.wanted.get(uri.toString())).then(answer => answer.text, error => error.message)
    }),
    vscode.workspace.onDidSaveTextDocument(() => texts.wanted.forEach((_, uri) => texts.changed.fire(vscode.Uri.parse(uri)))),
    vscode.workspace.onDidChangeConfiguration(event => {
      if (event.affectsConfiguration('tegula')) client.sendNotification('workspace/didChangeConfiguration', { settings: { tegula: settings() } });
    }),
    vscode.commands.registerCommand('tegula.showArtifact', () => showArtifact(texts)),
    vscode.commands.registerCommand('tegula.showPicture', showPicture),
    vscode.commands.registerCommand('tegula.restart', () => client.restart())
  );
  await start();
}

module.exports = { activate, deactivate: () => client && client.stop() };
