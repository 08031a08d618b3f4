package lockhouse_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEverythingPublicIsDocumented: `go doc` says something of all that a caller can use.
func TestEverythingPublicIsDocumented(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	found, err := doc.NewFromFiles(set, files, module)
	if err != nil {
		t.Fatal(err)
	}
	documented := func(what, text string) {
		if text == "" {
			t.Errorf("%s has no comment", what)
		}
	}
	functions := func(of string, all []*doc.Func) {
		for _, it := range all {
			if it.Name != "Error" { // which every error has
				documented(of+it.Name, it.Doc)
			}
		}
	}
	values := func(all []*doc.Value) {
		for _, group := range all {
			for _, spec := range group.Decl.Specs {
				it := spec.(*ast.ValueSpec)
				documented(it.Names[0].Name, group.Doc+it.Doc.Text()+it.Comment.Text())
			}
		}
	}
	documented("the package", found.Doc)
	functions("", found.Funcs)
	values(found.Consts)
	values(found.Vars)
	for _, it := range found.Types {
		documented(it.Name, it.Doc)
		functions("", it.Funcs)
		functions(it.Name+".", it.Methods)
		values(it.Consts)
		values(it.Vars)
	}
}
