//! The source files of a crate do not import each other, not even in a larger circle.
//!
//! A file imports another if it names something that the other defines, by a path that begins with `crate`, `super`,
//! `self` or a module, in a `use` or anywhere else. A name that a module re-exports counts as an import of the file that
//! defines it. Method calls and macros are not followed. Modules of unit tests are skipped.

mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tokens::{is_name, tokens};

/// A module's place in its crate: the names from the root to it.
type ModulePath = Vec<String>;

/// The modules of one crate root, by their place.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// The names that a module declares, and the names of other modules that it uses.
#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// Names that it defines.
    items: BTreeSet<String>,
    /// Names that it brings in by `use`, with their paths.
    uses: BTreeMap<String, Vec<String>>,
    /// The modules from which it brings in all names.
    globs: Vec<Vec<String>>,
    /// All paths that it names, including the paths of its `use`s.
    paths: Vec<Vec<String>>,
}

impl Crate {
    /// Reads the crate whose root is `file`.
    fn read(file: &Path) -> Self {
        let mut all = Self::default();
        let folder = file.parent().expect("a file is in a folder");
        all.read_file(file, folder, Vec::new());
        all
    }

    /// Reads `file` as the module `path`; the files of its children are in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let source = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let mut reader = Reader {
            all: self,
            file,
            tokens: tokens(&source),
            at: 0,
            children: Vec::new(),
        };
        reader.module(path);
        let Reader { children, .. } = reader;
        for (child, said) in children {
            let name = child.last().expect("a child has a name");
            let file = match said {
                Some(said) => file.with_file_name(said),
                None => folder.join(format!("{name}.rs")),
            };
            match file.exists() {
                true => self.read_file(&file, &file.with_extension(""), child),
                false => {
                    self.read_file(&folder.join(name).join("mod.rs"), &folder.join(name), child)
                }
            }
        }
    }

    /// The file that defines the item at `path`, as seen from the module `from`.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<&Path> {
        self.find(from, path, 0).map(|found| found.0)
    }

    /// The same, with the module if it is one.
    fn find(
        &self,
        from: &[String],
        path: &[String],
        depth: u32,
    ) -> Option<(&Path, Option<ModulePath>)> {
        if depth > 20 {
            return None;
        }
        let mut at = from.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|first| first == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let module = self.modules.get(&at)?;
                if !module.children.contains(first) && !module.uses.contains_key(first) {
                    return None;
                }
            }
        }
        while let [name, more @ ..] = rest {
            let module = self.modules.get(&at)?;
            if module.children.contains(name) {
                at.push(name.clone());
                rest = more;
                continue;
            }
            if !module.items.contains(name) {
                let mut brought_in = module
                    .uses
                    .get(name)
                    .cloned()
                    .into_iter()
                    .collect::<Vec<_>>();
                if brought_in.is_empty() {
                    for glob in &module.globs {
                        brought_in.push(glob.iter().chain([name]).cloned().collect());
                    }
                }
                for brought in brought_in {
                    // The path is the item itself, or of another crate.
                    if brought == path {
                        continue;
                    }
                    match self.find(&at, &brought, depth + 1) {
                        Some((file, None)) => return Some((file, None)),
                        Some((_, Some(module))) if !more.is_empty() => {
                            return self.find(&module, &prefixed(more), depth + 1);
                        }
                        Some(found) => return Some(found),
                        None if module.uses.contains_key(name) => return None,
                        None => {}
                    }
                }
                if !module.globs.is_empty() {
                    return None;
                }
            }
            return Some((&module.file, None));
        }
        Some((&self.modules.get(&at)?.file, Some(at)))
    }

    /// The files that each file imports, with one name for each as an example.
    fn imports(&self) -> BTreeMap<&Path, BTreeMap<&Path, String>> {
        let mut imports: BTreeMap<&Path, BTreeMap<&Path, String>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for named in &module.paths {
                if let Some(file) = self
                    .resolve(path, named)
                    .filter(|file| *file != module.file)
                {
                    let imported = imports.entry(&module.file).or_default();
                    imported.entry(file).or_insert_with(|| named.join("::"));
                }
            }
        }
        imports
    }
}

fn prefixed(path: &[String]) -> Vec<String> {
    ["self".to_owned()]
        .into_iter()
        .chain(path.iter().cloned())
        .collect()
}

/// Reads the tokens of one file.
struct Reader<'a> {
    all: &'a mut Crate,
    file: &'a Path,
    tokens: Vec<String>,
    at: usize,
    /// Modules in separate files.
    children: Vec<(ModulePath, Option<String>)>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    /// Whether the next tokens are these.
    fn peek_all(&self, tokens: &[&str]) -> bool {
        let mut ahead = tokens.iter().enumerate();
        ahead.all(|(i, token)| self.peek(i) == *token)
    }

    /// Whether the next tokens are `[cfg(test)] mod`, or the same with further conditions.
    fn is_module_of_tests(&self) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|token| token == "]");
        let Some((attribute, after)) = end.and_then(|end| rest.split_at_checked(end)) else {
            return false;
        };
        self.peek_all(&["[", "cfg", "("])
            && attribute.iter().any(|token| token == "test")
            && after.get(1).is_some_and(|token| token == "mod")
    }

    /// Skips the next module, with its body.
    fn skip_module(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.next() {
            match token.as_str() {
                ";" if depth == 0 => return,
                "{" => depth += 1,
                "}" if depth == 1 => return,
                "}" => depth -= 1,
                _ => {}
            }
        }
    }

    /// Reads to the brace that closes the module `path`, or to the end.
    fn module(&mut self, path: ModulePath) {
        let mut module = Module {
            file: self.file.to_owned(),
            ..Module::default()
        };
        let mut depth = 0;
        let mut said = None;
        while let Some(token) = self.next() {
            match token.as_str() {
                // `pub(in crate::engine)` imports nothing.
                "pub" if self.peek(0) == "(" => {
                    while self.next().is_some_and(|token| token != ")") {}
                }
                // `#[path = "…"]`
                "path" if self.peek(0) == "=" && self.peek(1).starts_with('"') => {
                    self.next();
                    said = self.next().map(|text| text.trim_matches('"').to_owned());
                }
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                // A module of tests may use its parent's file.
                "#" if self.is_module_of_tests() => self.skip_module(),
                "mod" if self.peek(1) == ";" || self.peek(1) == "{" => {
                    let name = self.next().unwrap_or_default();
                    let child: ModulePath = path.iter().chain([&name]).cloned().collect();
                    module.children.insert(name);
                    match self.next().as_deref() {
                        Some("{") => self.module(child),
                        _ => self.children.push((child, said.take())),
                    }
                }
                "struct" | "enum" | "trait" | "fn" | "type" | "const" | "static" | "union"
                    if depth == 0 =>
                {
                    module.items.insert(self.peek(0).to_owned());
                }
                "use" => self.use_tree(Vec::new(), &mut module),
                first if is_name(first) && self.peek(0) == "::" => {
                    let mut named = vec![token.clone()];
                    while self.peek(0) == "::" && is_name(self.peek(1)) {
                        self.next();
                        named.extend(self.next());
                    }
                    module.paths.push(named);
                }
                _ => {}
            }
        }
        self.all.modules.insert(path, module);
    }

    /// Reads the tree after `use` and `before`.
    fn use_tree(&mut self, before: Vec<String>, module: &mut Module) {
        let mut path = before;
        loop {
            match self.next().as_deref() {
                Some("::") => {}
                Some("{") => {
                    while self.peek(0) != "}" && !self.peek(0).is_empty() {
                        self.use_tree(path.clone(), module);
                        if self.peek(0) == "," {
                            self.next();
                        }
                    }
                    self.next();
                    return;
                }
                Some("*") => {
                    module.paths.push(path.clone());
                    module.globs.push(path);
                    return;
                }
                Some(name) if is_name(name) => {
                    if name != "self" || path.is_empty() {
                        path.push(name.to_owned());
                    }
                    if self.peek(0) != "::" {
                        let mut alias = path.last().cloned().unwrap_or_default();
                        if self.peek(0) == "as" {
                            self.next();
                            alias = self.next().unwrap_or_default();
                        }
                        module.uses.insert(alias, path.clone());
                        module.paths.push(path);
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

/// The circles of files in the crate with the root `file`. Each is the imports that close it, with one name of each import.
fn circles(file: &Path) -> Vec<Vec<String>> {
    let all = Crate::read(file);
    let imports = all.imports();
    let mut reached: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for file in imports.keys() {
        let mut next = vec![*file];
        let from = reached.entry(file).or_default();
        while let Some(file) = next.pop() {
            let imported = imports.get(file).into_iter().flat_map(BTreeMap::keys);
            next.extend(imported.filter(|file| from.insert(file)));
        }
    }
    let are_in_circle = |one: &Path, other: &Path| {
        let reaches =
            |from: &Path, to: &Path| reached.get(from).is_some_and(|all| all.contains(to));
        reaches(one, other) && reaches(other, one)
    };
    let mut circles: BTreeMap<&Path, Vec<String>> = BTreeMap::new();
    for (file, imported) in &imports {
        for (other, name) in imported {
            let mut first = imports.keys().filter(|first| are_in_circle(first, file));
            if are_in_circle(file, other)
                && let Some(first) = first.next()
            {
                let import = format!("{} imports {}: {name}", file.display(), other.display());
                circles.entry(first).or_default().push(import);
            }
        }
    }
    circles.into_values().collect()
}

/// The roots of all libraries, programs, tests, benchmarks and examples of the workspace.
fn roots() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut roots = Vec::new();
    for krate in entries(&crates) {
        roots.extend(["src/lib.rs", "src/main.rs"].map(|root| krate.join(root)));
        for folder in ["src/bin", "tests", "benches", "examples"] {
            for entry in entries(&krate.join(folder)) {
                match entry.is_dir() {
                    true => roots.push(entry.join("main.rs")),
                    false => roots.push(entry),
                }
            }
        }
    }
    let is_source = |root: &PathBuf| root.extension().is_some_and(|extension| extension == "rs");
    roots.retain(|root| root.exists() && is_source(root));
    roots
}

/// The entries of `folder`, if it exists.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut entries: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let roots = roots();
    assert!(roots.len() > 50, "{roots:#?}");
    let found: Vec<_> = roots.iter().flat_map(|root| circles(root)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// The check finds two files that import each other through a re-export, and three files in a circle. It does not report an
/// import in one direction, nor an import by a module of tests.
#[test]
fn files_that_import_each_other_are_found() {
    let folder = new_folder();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "lib.rs",
        "mod a; mod b; mod c; mod d; mod e; mod f; mod g; mod h; pub use a::A;",
    );
    write("a.rs", "use crate::b::B; pub struct A(B);");
    write(
        "b.rs",
        "pub struct B(Option<Box<crate::A>>); // use crate::c::C;",
    );
    write(
        "c.rs",
        "use super::b::B; pub(in crate::a) struct C(B, &'static str);",
    );
    write(
        "d.rs",
        "pub struct D; #[cfg(all(test, unix))] mod tests { use crate::e::E; fn e() { E {}; } }",
    );
    write("e.rs", "use crate::d::D; pub struct E(D);");
    write("f.rs", "pub struct F(Box<crate::g::G>);");
    write("g.rs", "pub struct G(Box<crate::h::H>);");
    write("h.rs", "pub struct H(Box<super::f::F>, crate::e::E);");
    let circles = circles(&folder.join("lib.rs"));
    let sizes: Vec<_> = circles.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 3], "{circles:#?}");
    fs::remove_dir_all(folder).unwrap();
}

/// A new folder for one test.
fn new_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("imports-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files can be written");
    folder
}
