"""Corrects the bill of materials that cargo-cyclonedx writes: `sbom.py BOM ROOT <CRATES`.

cargo-cyclonedx resolves features for the whole workspace, tests included, so it lists crates that are not in the binary.
Those of CRATES stay: the output of `cargo tree --prefix none --format '{p}'`. ROOT, the path of the checkout, is left out.
"""

import json
import sys

path, root = sys.argv[1:]
built = {tuple(line.split()[:2]) for line in sys.stdin}
with open(path, encoding="utf-8") as file:
    bom = json.loads(file.read().replace(f"file://{root}/", "file:///"))


def crate(component):
    return component["name"], "v" + component["version"]


program = bom["metadata"]["component"]
bom["components"] = [component for component in bom["components"] if crate(component) in built]
missing = built - {crate(component) for component in bom["components"]}
# The program itself, under the name of its crate.
if len(missing) != 1:
    sys.exit(f"sbom.py: {path} lacks some of {sorted(missing)}")
refs = {component["bom-ref"] for component in [program, *bom["components"]]}
bom["dependencies"] = [
    {**node, "dependsOn": [ref for ref in node.get("dependsOn", []) if ref in refs]}
    for node in bom["dependencies"]
    if node["ref"] in refs
]
with open(path, "w", encoding="utf-8") as file:
    json.dump(bom, file, indent=2)
