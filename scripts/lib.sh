# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the scripts share: paths, messages, and how our patches are applied to a
# foreign tree.  Sourced, never run.
#
# The cache, $BACKTRAIL_CACHE (see README.md for its default):
#
#   download/           source tarballs and packages, as fetched
#   ccache/             compiler cache of all trees
#   git/<tree>-<id>     bare repository whose only commit is the tarball
#   work/<tree>-<id>/   one tree that is patched and built in place:
#     src/              the sources with the patches of some checkout
#     build/            the build folder that belongs to them
#     orig/             the files of the tarball that src/ has patched
#     touched           paths where src/ may differ from the tarball
#     log               output of the last build
#   out/<tree>-<hash>/  results, which never change; the hash is of all inputs
#   guest/<hash>/       the test guest
#   booted/<hash>/      its states after boots: tests/lib/booted.py
#   recorded/<hash>/    traces that many tests read: tests/lib/recorded.py
#   derived/<hash>/     branches that follow from a guest's log: tests/oracle/run
#   passed/<hash>/      tests that have passed: scripts/remember
#   lock/               a file for each of the above while it is written
#
# <id> names the tarball and how it is configured.  Checkouts with different
# patches use the tree in work/ in turn, under its lock, and each finds its own
# binaries in out/.

set -eEu -o pipefail
# A command that fails unexpectedly may print nothing.
trap 'say "$0 stopped at ${BASH_SOURCE[0]##*/}:$LINENO"' ERR

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${BACKTRAIL_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/backtrail}
case $CACHE in
/*) ;;
*) CACHE=$PWD/$CACHE ;;
esac
export LC_ALL=C.UTF-8

# Neither the user's git configuration nor a checkout around us may change
# what git makes of a patch.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

say() {
    printf '%s\n' "$*" >&2
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# usage [STATUS]: prints the comment at the top of the script and exits
usage() {
    awk 'NR > 1 && !/^#/ { exit } NR > 3 { sub(/^# ?/, ""); print }' "$0"
    exit "${1:-0}"
}

make_cache() {
    mkdir -p "$CACHE" 2>/dev/null && [ -w "$CACHE" ] ||
        die "cannot write to the cache folder $CACHE;" \
            "set BACKTRAIL_CACHE to a folder of yours"
}

# lock PATH: keeps others from PATH in the cache until the script ends
lock() {
    mkdir -p "$CACHE/lock" "$(dirname "$CACHE/$1")"
    exec {lock_fd}>"$CACHE/lock/${1//\//-}"
    if ! flock -n "$lock_fd"; then
        say "waiting for another script that uses $CACHE/$1"
        flock "$lock_fd"
    fi
}

# keep_newest N PATTERN: removes all but the N folders in the cache that match
# and were used last, and those in use
keep_newest() {
    local old dir=${2%/*}
    find "$CACHE/$dir" -mindepth 1 -maxdepth 1 -type d -name "${2##*/}" \
        -printf '%T@ %f\n' | sort -rn | tail -n "+$(($1 + 1))" |
        cut -d ' ' -f 2- | while read -r old; do
        flock -n "$CACHE/lock/$dir-$old" rm -rf "$CACHE/$dir/$old" || true
    done
}

# scratch: sets SCRATCH to a folder that is removed when the script ends
scratch() {
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/backtrail.XXXXXX")
    trap 'rm -rf "$SCRATCH"' EXIT
}

# logged LOG COMMAND...: runs a command and shows its output on a terminal;
# elsewhere writes it to LOG, and shows the end of it if the command fails
logged() {
    local log=$1
    shift
    if [ -t 2 ]; then
        "$@" >&2 || return 1
    elif ! "$@" >"$log" 2>&1 </dev/null; then
        tail -n 40 "$log" >&2
        say "the whole output: $log"
        return 1
    fi
}

# compile DIR [MESON-OPTION | TARGET]...: builds our own code, or only the
# targets, in DIR
compile() {
    local dir=$1 word options=() targets=()
    # Other checkouts have the same files at other paths.
    local -x CCACHE_DIR=$CACHE/ccache CCACHE_BASEDIR=$TOP CCACHE_NOHASHDIR=1
    shift
    for word in "$@"; do
        case $word in
        -*) options+=("$word") ;;
        *) targets+=("$word") ;;
        esac
    done
    if [ ! -e "$dir/build.ninja" ]; then
        logged "$dir.log" meson setup "$dir" "$TOP" \
            ${options[@]+"${options[@]}"} || return 1
    fi
    logged "$dir.log" nice ninja -C "$dir" ${targets[@]+"${targets[@]}"}
}

# Trees ----------------------------------------------------------------------

# load_tree TREE: reads scripts/trees/TREE, which sets
#   tarball         its name in sources.lock
#   patches         folder of this repository with patches/ and files/
#   copies          array of PATH=OURS: PATH in the tree is a copy of our OURS
#   settings        array of files of ours that tree_build reads
#   packages        array of Debian packages whose version matters to a result
#   tree_prepare    function, in a new src/: adds what the tarball lacks
#   tree_configure  function, in build/: configures ../src
#   tree_build      function, in build/
#   tree_install    function: tree_install OUT, in build/
load_tree() {
    local name=${1:-}
    case $name in
    '' | -* | */*)
        usage 2 >&2
        ;;
    esac
    [ -f "$TOP/scripts/trees/$name" ] ||
        die "unknown tree '$name'; there are:" \
            "$(cd "$TOP/scripts/trees" && echo *)"
    TREE=$name
    copies=()
    settings=()
    packages=()
    # shellcheck source=/dev/null
    . "$TOP/scripts/trees/$name"
    PATCHES=$TOP/$patches
    TARBALL=$CACHE/download/$tarball
    TARBALL_SHA256=$(awk -v f="/$tarball" \
        'substr($2, length($2) - length(f) + 1) == f { print $1 }' \
        "$TOP/scripts/sources.lock")
    [ -n "$TARBALL_SHA256" ] ||
        die "scripts/sources.lock has no checksum for $tarball"
    WORK=$CACHE/work/$TREE-$( (echo "$TARBALL_SHA256"
        declare -f tree_prepare tree_configure) | sha256sum | cut -c 1-12)
}

# patch_list DIR: the patches in DIR/patches, in order
patch_list() {
    [ ! -d "$1/patches" ] ||
        find "$1/patches" -maxdepth 1 -name '*.patch' | sort
}

# file_list DIR: the new files in DIR/files, as paths in the tree
file_list() {
    [ ! -d "$1/files" ] || (cd "$1/files" && find . -type f -printf '%P\n') |
        sort
}

copy_list() {
    local copy
    for copy in ${copies[@]+"${copies[@]}"}; do
        echo "${copy%%=*}"
    done
}

# copy_of PATH: the file of ours that PATH in the tree is a copy of, or nothing
copy_of() {
    local copy
    for copy in ${copies[@]+"${copies[@]}"}; do
        if [ "${copy%%=*}" = "$1" ]; then
            echo "$TOP/${copy#*=}"
        fi
    done
}

# patch_files PATCH: the new files that belong to the patch's commit, named by
# lines "Backtrail-files: PATH..." between the message and the diff
patch_files() {
    awk '/^diff --git / { exit }
         /^---$/ { after = 1 }
         after && /^Backtrail-files:/ {
             for (i = 2; i <= NF; i++) print $i
         }' "$1"
}

# patch_paths PATCH: the paths that its diff touches
patch_paths() {
    if grep -q '^diff --git ' "$1"; then
        git -C / apply --numstat -z "$1" | tr '\0' '\n' | cut -f 3-
    fi
}

# inputs DIR: a hash of everything that our patches in DIR put into the tree
inputs() {
    local path
    {
        patch_list "$1" | while read -r path; do
            printf '%s\n' "${path##*/}"
            cat "$path"
        done
        file_list "$1" | while read -r path; do
            stat -c '%A' "$1/files/$path"
            printf '%s\n' "$path"
            cat "$1/files/$path"
        done
        copy_list | while read -r path; do
            printf '%s\n' "$path"
            cat "$(copy_of "$path")"
        done
    } | sha256sum | cut -d ' ' -f 1
}

# stage DIR PRISTINE OUT: makes every file that the patches of DIR touch, with
# these applied, in OUT.  PRISTINE is a command; PRISTINE OUT <paths copies
# those of the paths that the tarball has into OUT.  OUT.paths then lists all
# paths, also those that a patch deletes.
stage() {
    local dir=$1 pristine=$2 out=$3 path patch
    mkdir -p "$out"
    patch_list "$dir" | while read -r patch; do
        patch_paths "$patch" || die "$patch is not a patch"
    done | sort -u >"$out.hooks"
    { file_list "$dir"; copy_list; } | sort -u >"$out.new"
    # Patches change the files of the tarball; none is replaced.
    "$pristine" "$out" <"$out.new"
    path=$(cd "$out" && find . -type f -printf '%P ')
    [ -z "$path" ] ||
        die "the tarball has ${path% } already:" \
            "make a patch of it, not a file in $patches/files"
    "$pristine" "$out" <"$out.hooks"
    patch_list "$dir" | while read -r patch; do
        grep -q '^diff --git ' "$patch" || continue
        # Without the ceiling, git would find a repository around $out, if
        # there is one, and silently skip files outside of it.
        (cd "$out" && GIT_CEILING_DIRECTORIES=${out%/*} \
            git apply --whitespace=nowarn "$patch") >&2 ||
            die "$(basename "$patch") does not apply to $tarball;" \
                "see CONTRIBUTING.md on how to refresh patches"
    done
    while read -r path; do
        mkdir -p "$out/$(dirname "$path")"
        if [ -n "$(copy_of "$path")" ]; then
            cp "$(copy_of "$path")" "$out/$path"
        else
            cp "$dir/files/$path" "$out/$path"
        fi
    done <"$out.new"
    sort -u "$out.hooks" "$out.new" >"$out.paths"
}

# pristine_work OUT: copies files of the tarball, named on stdin, from the
# tree in WORK into OUT; one that src/ may have patched is in orig/
pristine_work() {
    local path from
    while read -r path; do
        from=src
        if [ -e "$1/$path" ]; then
            continue
        elif [ -e "$WORK/orig/$path" ]; then
            from=orig
        elif grep -qxF "$path" "$WORK/touched" || [ ! -e "$WORK/src/$path" ]
        then
            continue
        fi
        mkdir -p "$1/$(dirname "$path")"
        cp -P "$WORK/$from/$path" "$1/$path"
    done
}

# update_tree DIR: unpacks the tarball into WORK, if it is not there, and
# applies the patches and files of DIR to its src/.  Writes only files whose
# content changes, so that the next build compiles only these.  The caller holds
# the lock of WORK.
update_tree() {
    local dir=$1 path
    if [ ! -d "$WORK/src" ]; then
        "$TOP/scripts/fetch" "$TREE" >/dev/null
        say "unpacking $tarball"
        rm -rf "$WORK"
        mkdir -p "$WORK/new" "$WORK/orig" "$WORK/build"
        : >"$WORK/touched"
        tar -C "$WORK/new" -xf "$TARBALL" --strip-components=1
        (cd "$WORK/new" && tree_prepare)
        mv "$WORK/new" "$WORK/src"
    fi
    stage "$dir" pristine_work "$SCRATCH/stage"
    # Before src/ is touched, so that an interruption loses nothing.
    pristine_work "$WORK/orig" <"$SCRATCH/stage.hooks"
    sort -u "$WORK/touched" "$SCRATCH/stage.paths" >"$SCRATCH/paths"
    cp "$SCRATCH/paths" "$WORK/touched"
    while read -r path; do
        local want=$SCRATCH/stage/$path
        if ! grep -qxF "$path" "$SCRATCH/stage.paths"; then
            want=$WORK/orig/$path
        fi
        if [ ! -e "$want" ]; then
            rm -f "$WORK/src/$path"
        elif ! cmp -s "$want" "$WORK/src/$path" ||
            [ "$(stat -c %A "$want")" != "$(stat -c %A "$WORK/src/$path")" ]
        then
            mkdir -p "$WORK/src/$(dirname "$path")"
            cp "$want" "$WORK/src/$path.new"
            mv "$WORK/src/$path.new" "$WORK/src/$path"
        fi
    done <"$SCRATCH/paths"
    cp "$SCRATCH/stage.paths" "$WORK/touched"
}

# Git trees ------------------------------------------------------------------

# git_tree DIR: makes DIR a git repository whose first commit is the tarball,
# tagged "tarball", and each further one a patch of ours with the new files
# that belong to it
git_tree() {
    local dir=$1 base=$CACHE/git/${WORK##*/} patch path
    if [ ! -d "$base" ]; then
        lock "git/${WORK##*/}"
    fi
    if [ ! -d "$base" ]; then
        "$TOP/scripts/fetch" "$TREE" >/dev/null
        say "importing $tarball into git"
        mkdir "$SCRATCH/import"
        tar -C "$SCRATCH/import" -xf "$TARBALL" --strip-components=1
        rm -rf "$base.new"
        git init -q --bare "$base.new"
        (
            export GIT_DIR=$base.new GIT_WORK_TREE=$SCRATCH/import
            cd "$SCRATCH/import"
            git -c core.autocrlf=false -c core.bigFileThreshold=1m add -A -f .
            identity "backtrail <backtrail@localhost>" "@0 +0000"
            git commit -q -m "$tarball"
            git tag tarball
        ) || die "cannot import $tarball"
        rm -rf "$SCRATCH/import"
        mv "$base.new" "$base"
    fi
    git clone -q --shared "$base" "$dir"
    patch_list "$PATCHES" | while read -r patch; do
        git -C "$dir" mailinfo -b "$SCRATCH/message" "$SCRATCH/diff" \
            <"$patch" >"$SCRATCH/info" ||
            die "$patch is not a mail"
        if grep -q '^diff --git ' "$patch"; then
            git -C "$dir" apply --index --whitespace=nowarn "$patch" ||
                die "$(basename "$patch") does not apply to $tarball"
        fi
        patch_files "$patch" | while read -r path; do
            put_new "$dir" "$path"
            git -C "$dir" add -f -- "$path"
        done
        (
            identity "$(sed -n 's/^Author: //p' "$SCRATCH/info") <$(
                sed -n 's/^Email: //p' "$SCRATCH/info")>" \
                "$(sed -n 's/^Date: //p' "$SCRATCH/info")"
            { sed -n 's/^Subject: //p' "$SCRATCH/info"
              echo
              cat "$SCRATCH/message"; } |
                git -C "$dir" commit -q --allow-empty -F -
        )
    done
}

# identity AUTHOR DATE: sets author and committer of the next commits.  Both are
# the same, so that the same patches make the same commits anywhere.
identity() {
    export GIT_AUTHOR_NAME=${1% <*} GIT_AUTHOR_DATE=$2
    GIT_AUTHOR_EMAIL=$(sed 's/.*<\(.*\)>$/\1/' <<<"$1")
    export GIT_AUTHOR_EMAIL
    export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME
    export GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
    export GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
}

# put_new DIR PATH: copies a new file of ours into the tree in DIR
put_new() {
    local from
    from=$(copy_of "$2")
    from=${from:-$PATCHES/files/$2}
    [ -f "$from" ] || die "a patch names the new file $2, but $from is missing"
    mkdir -p "$1/$(dirname "$2")"
    cp "$from" "$1/$2"
}

# unnamed_files: the new files that no patch names
unnamed_files() {
    comm -23 <({ file_list "$PATCHES"; copy_list; } | sort -u) \
        <(patch_list "$PATCHES" | while read -r patch; do
            patch_files "$patch"
        done | sort -u)
}
