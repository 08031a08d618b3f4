package lockhouse_test

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockhouse/lockhouse/clients/go"
)

const (
	module  = "github.com/lockhouse/lockhouse/clients/go"
	version = "v" + lockhouse.Version
)

// TestTheTourRunsAsPrinted gets the module with the README's command, builds its program and runs it. The module comes from
// a folder that is laid out as a module proxy.
func TestTheTourRunsAsPrinted(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	get, tour := block(t, string(readme), "sh no-run"), block(t, string(readme), "go")
	folder := t.TempDir()
	write(t, filepath.Join(folder, "main.go"), []byte(tour))
	environment := append(os.Environ(),
		"LOCKHOUSE_URL="+server(t),
		"GOPROXY=file://"+proxy(t),
		"GONOSUMDB=*",
		"GOMODCACHE="+filepath.Join(t.TempDir(), "modules"),
		"GOFLAGS=-modcacherw", // so that it can be removed
	)
	output := ""
	for _, line := range []string{"go mod init tour", strings.TrimSpace(get), "go run ."} {
		words := strings.Fields(line)
		command := exec.Command(words[0], words[1:]...)
		command.Dir, command.Env = folder, environment
		told, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, told)
		}
		output = string(told)
	}
	for _, line := range []string{"one of ten, fence 1", "no room for ten more", "both, fences 1 1", "released 3"} {
		if !strings.Contains(output, line) {
			t.Fatalf("no %q in %s", line, output)
		}
	}
	got, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil || !strings.Contains(string(got), module+" "+version) {
		t.Fatalf("%v: %s", err, got)
	}
}

// block is the first block of that language.
func block(t *testing.T, text, language string) string {
	t.Helper()
	_, rest, _ := strings.Cut(text, "```"+language+"\n")
	found, _, ends := strings.Cut(rest, "```")
	if !ends {
		t.Fatalf("the README has no block of %s", language)
	}
	return found
}

// proxy is a folder that serves this module, and nothing else, as a module proxy does.
func proxy(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	versions := filepath.Join(folder, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(versions, "list"), []byte(version+"\n"))
	write(t, filepath.Join(versions, version+".mod"), mod)
	write(t, filepath.Join(versions, version+".info"), []byte(`{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`))
	packed, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	files := zip.NewWriter(packed)
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "target" { // what the contract builds
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := files.Create(path.Join(module+"@"+version, filepath.ToSlash(name)))
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
