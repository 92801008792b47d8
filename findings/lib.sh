# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What the findings share: a folder that goes away, pinned packages of Debian,
# and guests under Debian's QEMU.  Sourced, never run.
#
# Packages come by an apt configuration of our own, from the mirror that this
# machine's apt uses for Debian.  apt checks the signatures with this machine's
# keys; nothing is installed.

set -eEu -o pipefail
trap 'echo "$0 stopped at ${BASH_SOURCE[0]##*/}:$LINENO" >&2' ERR
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
# shellcheck disable=SC2034 # for the findings
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
DIR=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$DIR"' EXIT

say() {
    printf '%s\n' "$*"
}

# changed SENTENCE: what was found is no longer so
changed() {
    say "CHANGED: $*"
    exit 1
}

# skip REASON: the finding cannot be shown here, or no more
skip() {
    say "SKIPPED: $*" >&2
    exit 77
}

# need COMMAND...: programs of this machine
need() {
    local command
    for command in "$@"; do
        [ -n "$(type -P "$command")" ] || skip "this machine has no $command"
    done
}

# from SUITE [ARCHITECTURE]: apt sees nothing but this suite from now on
from() {
    local mirror apt=$DIR/apt
    need apt-get dpkg-deb
    # shellcheck disable=SC2016 # it is for apt to expand
    mirror=$(env -u APT_CONFIG apt-get indextargets --format '$(REPO_URI)' \
        'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
        sort -u | head -n 1)
    [ -n "$mirror" ] || skip "this machine's apt has no mirror of Debian"
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    # Development suites can be past the date until which their lists are
    # valid; they are signed all the same.
    echo "deb [check-valid-until=no] $mirror $1 main" >"$apt/sources.list"
    cat >"$apt/conf" <<EOF
APT::Architecture "${2:-amd64}";
APT::Architectures { "${2:-amd64}"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
EOF
    export APT_CONFIG=$apt/conf
    if ! apt-get -q update >"$apt/log" 2>&1 || grep '^[EW]:' "$apt/log"; then
        skip "apt cannot read the lists of $1"
    fi
}

# get FOLDER PACKAGE=VERSION: unpacks one package
get() {
    rm -rf "$DIR/get"
    mkdir -p "$1" "$DIR/get"
    (cd "$DIR/get" && apt-get -q download "$2") >"$DIR/log" 2>&1 ||
        skip "$2 is not to be had any more"
    dpkg-deb -x "$DIR"/get/*.deb "$1"
    rm -rf "$DIR/get"
}

# get_all FOLDER PACKAGE=VERSION: unpacks a package and all that it depends on
get_all() {
    local deb
    mkdir -p "$1"
    apt-get -q -y install --download-only --no-install-recommends "$2" \
        >"$DIR/log" 2>&1 || skip "$2 is not to be had any more"
    for deb in "$DIR"/apt/cache/archives/*.deb; do
        dpkg-deb -x "$deb" "$1"
    done
    rm -f "$DIR"/apt/cache/archives/*.deb
}

# within FOLDER PROGRAM ARGUMENT...: runs a program that get_all() unpacked,
# with the libraries that it unpacked
within() {
    local root=$1 libraries
    shift
    libraries=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
    libraries+=:$root/usr/lib/x86_64-linux-gnu/pulseaudio
    "$(find "$root" -name 'ld-linux-x86-64.so.2' | head -n 1)" \
        --library-path "$libraries" "$root/$1" "${@:2}"
}

# end_within PID: ends what within() runs in the background, whose shell it is
end_within() {
    pkill -P "$1" || :
    wait "$1" || :
}

# get_tools SUITE BINUTILS GDB ELFUTILS LLVM: unpacks these versions of what names
# symbols to $DIR/SUITE-binutils and so on, and links $DIR/names.s to $DIR/names
get_tools() {
    local binutils=$DIR/$1-binutils
    from "$1"
    get_all "$binutils" "binutils=$2"
    get_all "$DIR/$1-gdb" "gdb-minimal=$3"
    get_all "$DIR/$1-elfutils" "elfutils=$4"
    get_all "$DIR/$1-llvm" "llvm-19=$5"
    within "$binutils" usr/bin/x86_64-linux-gnu-as -o "$DIR/names.o" \
        "$DIR/names.s"
    within "$binutils" usr/bin/x86_64-linux-gnu-ld -o "$DIR/names" \
        "$DIR/names.o"
    say "$1: binutils $2, gdb $3, elfutils $4, LLVM $5"
}

# kernel VERSION PACKAGE=VERSION: unpacks a kernel to $DIR/VERSION.vmlinuz
kernel() {
    local found
    get "$DIR/kernel" "$2"
    # Since Linux 6.19, Debian's kernels are below usr/lib/modules.
    found=$(find "$DIR/kernel" -name 'vmlinuz*' -type f)
    [ -n "$found" ] || changed "$2 has no vmlinuz"
    mv "$found" "$DIR/$1.vmlinuz"
    mv "$DIR"/kernel/boot/config-* "$DIR/$1.config" 2>/dev/null || :
    rm -rf "$DIR/kernel"
}

# start_guests: fetches what guest() needs
start_guests() {
    from trixie
    get "$DIR/busybox" busybox-static=1:1.37.0-6+b9
    get_all "$DIR/qemu" qemu-system-x86=1:10.0.13+ds-0+deb13u1
}

# guest VERSION SECONDS [FILE]...: boots $DIR/VERSION.vmlinuz with busybox and
# these files, which runs standard input as a shell script, and prints what
# that script prints to standard output
guest() {
    local version=$1 seconds=$2 root=$DIR/root busybox
    shift 2
    busybox=$(find "$DIR/busybox" -path "*bin/busybox")
    rm -rf "$root"
    mkdir -p "$root"/{bin,proc,sys,dev,tmp}
    cp "$busybox" "$root/bin/busybox"
    [ $# = 0 ] || cp "$@" "$root/bin"
    cat >"$root/script"
    cat >"$root/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tracefs none /sys/kernel/tracing
sh /script >/tmp/output 2>&1
stty -F /dev/ttyS0 -opost
{ echo; sed 's/^/@ /' /tmp/output; echo @end; } >/dev/ttyS0
sleep 1
poweroff -f
EOF
    chmod +x "$root/init"
    (cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null |
        gzip -1) >"$DIR/initrd"
    QEMU_MODULE_DIR=$DIR/qemu/usr/lib/x86_64-linux-gnu/qemu \
        timeout "$seconds" "$BASH" -c "$(declare -f within); within \"\$@\"" - \
        "$DIR/qemu" usr/bin/qemu-system-x86_64 \
        -L "$DIR/qemu/usr/share/qemu" -L "$DIR/qemu/usr/share/seabios" \
        -accel tcg -cpu max -m 768 -nodefaults -display none -no-reboot \
        -serial "file:$DIR/serial" -kernel "$DIR/$version.vmlinuz" \
        -initrd "$DIR/initrd" -append "console=ttyS0 quiet panic=-1" \
        >"$DIR/qemu.log" 2>&1 </dev/null || {
        tail -n 5 "$DIR/qemu.log" "$DIR/serial" >&2
        skip "the guest with Linux $version did not come to its end"
    }
    tr -d '\r' <"$DIR/serial" >"$DIR/lines"
    grep -q '^@end' "$DIR/lines" || skip "Linux $version did not run its script"
    sed -n 's/^@ //p' "$DIR/lines"
}

# get_qemu SUITE VERSION: unpacks this QEMU to $DIR/SUITE-qemu
get_qemu() {
    from "$1"
    get_all "$DIR/$1-qemu" "qemu-system-x86=$2"
    say "$1: QEMU $2"
}

# bare: makes $DIR/bare of $DIR/bare.S, which bare_qemu() runs instead of a
# kernel: 32-bit, at 1 MB, without paging.  Its end is a write to port 0xf4.
bare() {
    need as ld nm
    {
        say '.long 0x1badb002, 0, -0x1badb002'
        cat "$DIR/bare.S"
    } | as --32 -o "$DIR/bare.o" -
    ld -m elf_i386 -Ttext=0x100000 -z noexecstack -o "$DIR/bare" \
        "$DIR/bare.o"
    nm "$DIR/bare" | sed -n 's/^0*\([0-9a-f]*\) [tT] \(.*\)/s,\\b\1\\b,\2,g/p' \
        >"$DIR/bare.names"
}

# bare_qemu SUITE OPTION...: runs $DIR/bare and prints what plugins say, with
# the program's names for its addresses
bare_qemu() {
    local root=$DIR/$1-qemu status=0
    shift
    QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu \
        timeout 60 "$BASH" -c "$(declare -f within); within \"\$@\"" - \
        "$root" usr/bin/qemu-system-x86_64 \
        -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" \
        -accel tcg -cpu max -nodefaults -display none -no-reboot \
        -device isa-debug-exit,iobase=0xf4 -kernel "$DIR/bare" "$@" \
        >"$DIR/qemu.log" 2>&1 </dev/null || status=$?
    # What is written to the port is 0, which QEMU's status has as 1.
    if [ "$status" != 1 ] || ! grep -q '^plugin:' "$DIR/qemu.log"; then
        tail -n 5 "$DIR/qemu.log" >&2
        skip "the program did not come to its end"
    fi
    sed -n 's/^plugin: //p' "$DIR/qemu.log" | sed -f "$DIR/bare.names"
}

# plugin API: builds $DIR/plugin.c, which defines translated(), ended() and
# register_more(), for QEMU's plugins of this version, to $DIR/plugin-API.so
plugin() {
    need gcc
    cat >"$DIR/plugin.h" <<'EOH'
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;

#if API < 7
#define ID(type) uint64_t id, type
#define OPAQUE
#else
#define ID(type) type
#define OPAQUE , void *opaque
#endif

/* Of QEMU's qemu-plugin.h, which Debian does not have */
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
    void (*cb)(ID(struct qemu_plugin_tb *) OPAQUE) OPAQUE);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*cb)(ID(void *)),
                                    void *opaque);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *,
                                                 size_t i);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
    void (*cb)(unsigned vcpu, void *opaque), int flags, void *opaque);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
    void (*cb)(unsigned vcpu, uint32_t info, uint64_t at, void *opaque),
    int flags, int rw, void *opaque);
bool qemu_plugin_mem_is_store(uint32_t info);
#if API >= 7
void qemu_plugin_register_vcpu_discon_cb(uint64_t id, int type,
    void (*cb)(unsigned vcpu, int type, uint64_t from, uint64_t to,
               void *opaque), void *opaque);
#endif

/* Where bare() has the program, and what this finding defines */
#define BASE 0x100000
#define SIZE 0x1000
static void translated(struct qemu_plugin_insn *insn, void *offset);
static void ended(void);
static void register_more(uint64_t id);

static void on_translated(ID(struct qemu_plugin_tb *tb) OPAQUE)
{
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t at = qemu_plugin_insn_vaddr(insn);

        if (at >= BASE && at < BASE + SIZE) {
            translated(insn, (void *)(at - BASE));
        }
    }
}

static void on_end(ID(void *opaque))
{
    ended();
    fflush(stdout);
}

int qemu_plugin_version = API;

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
#if API < 7
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated);
#else
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translated, NULL);
#endif
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    register_more(id);
    return 0;
}
EOH
    gcc -shared -fPIC -DAPI="$1" -o "$DIR/plugin-$1.so" "$DIR/plugin.c"
}
