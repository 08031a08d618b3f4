import ts from "typescript";
import { expect, test } from "vitest";

const DECLARED = new URL("../dist/index.d.ts", import.meta.url).pathname;

/** The exports of the package, and the members of its classes and options. */
function* declared(): Generator<[string, string]> {
  const program = ts.createProgram([DECLARED], { target: ts.ScriptTarget.ES2022, skipLibCheck: true });
  const checker = program.getTypeChecker();
  const file = checker.getSymbolAtLocation(program.getSourceFile(DECLARED)!)!;
  const comment = (it: ts.Symbol) => ts.displayPartsToString(it.getDocumentationComment(checker));
  for (const exported of checker.getExportsOfModule(file)) {
    const it = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    if (it.flags & ts.SymbolFlags.Class) yield [it.name, comment(it)];
    for (const member of it.members?.values() ?? []) {
      const isPublic = member.flags & (ts.SymbolFlags.Method | ts.SymbolFlags.Accessor);
      const isOption = it.name.endsWith("Options") && member.flags & ts.SymbolFlags.Property;
      if (!isPublic && !isOption) continue;
      const [declaration] = member.declarations ?? [];
      const isHidden = declaration && ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Private;
      // `await using` calls these, and the class says what they do.
      if (!isHidden && !member.name.startsWith("__@")) yield [`${it.name}.${member.name}`, comment(member)];
    }
  }
}

test("the declarations say something of everything public", () => {
  const all = [...declared()];
  expect(all.length).toBeGreaterThan(60);
  expect(all.filter(([, comment]) => comment === "").map(([name]) => name)).toEqual([]);
});
