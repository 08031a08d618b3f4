# shellcheck shell=bash
#
# Servers that Debian has in its suite sid only. Their libraries are newer than a
# release's, so they are unpacked beside the system, once for all checkouts, and
# their programs are patched to load the libraries that they were unpacked with.
#
# A server sets ROOT=$(root_of NAME), and its `fetch` calls unpack_from_sid.

# root_of NAME: the folder that NAME is unpacked into. Root's is not in root's home
# folder, since PostgreSQL runs as another account, which has to enter it.
root_of() {
  local cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/lockhouse
  if ((EUID == 0)); then cache=/var/cache/lockhouse; fi
  realpath -m "${LOCKHOUSE_SERVICES_CACHE:-$cache}/sid/$1"
}

missing_unpacking_packages() { have patchelf || echo patchelf; }

# unpack_from_sid PACKAGES PROGRAM...: unpacks PACKAGES and all that they need into
# ROOT, unless it is there, and makes PROGRAMs, paths below ROOT, run from there. The
# first must know --version.
#
# A folder that was not completed never has the final name. The lock makes other checkouts wait
# for the one that fetches; it ends with the subshell.
unpack_from_sid() (
  [[ ! -d $ROOT ]] || return 0
  have apt-get || die "$NAME is unpacked from Debian's packages: apt-get is missing"
  umask 022
  mkdir -p "$(dirname "$ROOT")"
  exec 8>"$ROOT.lock"
  flock 8
  [[ ! -d $ROOT ]] || return 0
  say "fetching $1 from Debian's suite sid"
  partial=$ROOT.partial
  trap finish_unpacking EXIT
  rm -rf -- "$partial"
  mkdir -p "$partial/root"
  exec >"$ROOT.log" 2>&1
  download "$partial/apt" "$1"
  for deb in "$partial"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$partial/root" --no-same-owner --keep-directory-symlink
  done
  patch_programs "$partial/root" "${@:2}"
  mv -T "$partial/root" "$ROOT"
)

finish_unpacking() {
  rm -rf -- "$partial"
  [[ -d $ROOT ]] || {
    tail -n 40 "$ROOT.log" >&3
    say "services: $NAME could not be unpacked; all of the log is in $ROOT.log"
  }
}

# download FOLDER PACKAGES: asks an apt of our own, which knows of sid and of no
# installed package.
download() {
  mkdir -p "$1"/{sources,lists/partial,cache/archives/partial}
  : >"$1/status"
  sid_sources "$1/sources"
  local apt=(apt-get -q -y -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3
    -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$1/sources"
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o Dir::State::lists="$1/lists" -o Dir::State::status="$1/status" -o Dir::Cache="$1/cache")
  "${apt[@]}" update || true # a source of a third party may have no sid
  # shellcheck disable=SC2086 # package names are words
  "${apt[@]}" --no-install-recommends --download-only install $2 ||
    die "no apt source of this machine has $2 in a suite sid"
}

# patch_programs FOLDER PROGRAM...: has those below FOLDER load what will be in ROOT,
# and runs the first with what is in FOLDER.
patch_programs() {
  cd "$1" || exit 1
  shift
  local libraries=(usr/lib/*-linux-gnu) loader=(usr/lib/*-linux-gnu/ld-linux*.so.*)
  # shellcheck disable=SC2128 # there is one
  patchelf --force-rpath --set-rpath "$ROOT/$libraries" --set-interpreter "$ROOT/$loader" "$@"
  # shellcheck disable=SC2128
  "./$loader" --library-path "$libraries" "$1" --version
}

# sid_sources FOLDER: writes there the machine's own sources of its Debian
# release, with the same mirror and keyring, for sid.
sid_sources() {
  local file codename release
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME-}")
  release="(${codename:-stable}|oldstable|stable|testing|unstable|sid)"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -f $file ]] || sid_lines "$release" <"$file" >"$1/${file##*/}.list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ ! -f $file ]] || sid_stanzas "$release" <"$file" >"$1/${file##*/}"
  done
}

sid_lines() {
  sed -nE "s#^deb[ \t]+(\[[^]]*\][ \t]+)?([^ \t]+)[ \t]+$1[ \t]+.*#deb \1\2 sid main#p"
}

sid_stanzas() {
  awk -v RS= -v ORS='\n\n' -v suites="(^|\n)Suites:([^\n]*[ \t])?$1([ \t\n]|\$)" '$0 ~ suites' |
    sed -E 's/^Types:.*/Types: deb/; s/^Suites:.*/Suites: sid/; s/^Components:.*/Components: main/'
}
