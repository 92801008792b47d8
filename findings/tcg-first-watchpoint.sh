#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Of the watchpoints that an instruction meets, QEMU takes the first: one of gdb
# loses the debug exception of the guest, or is lost itself.
#
# One would guess:
#   gdb's watchpoints and the guest's debug registers do not know each other: if
#   an instruction meets one of each, gdb stops and the guest has its
#   exception.  If it meets two of the guest's, DR6 has the bits of both, as the
#   SDM says of DR6.
# What is so:
#   MOVSD reads memory that DR0 watches, and writes memory that DR1 watches:
#   - The guest has one exception, with the bit of DR0 alone in DR6.
#   - With an awatch of gdb on what is read, gdb stops, and the guest has no
#     exception, neither for DR0 nor for DR1.
#   - With a watch of gdb on what is written, gdb does not stop there: the
#     guest's DR0 was first.
#   QEMU 7.2.22, 10.0.13 and 11.1.3 with TCG, gdb 16.3.
# Why it matters:
#   A guest in which a debugger runs, or perf with breakpoints, goes another way
#   when gdb watches it from outside; and a watchpoint that was not hit does not
#   say that nothing was written.
# How to cope:
#   Watch from one side only.  In the guest, do not take a bit that is not in
#   DR6 for memory that was not accessed.
#
# Takes a minute; fetches 200 MB.

. "$(dirname "$0")/lib.sh" || exit
need pkill timeout
cat >"$DIR/bare.S" <<'END'
    .globl _start
_start:
    mov $stack, %esp
    lgdt gdtr
    ljmp $8, $1f
1:
    mov $16, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov $handler, %eax
    mov %ax, idt + 8
    movw $8, idt + 8 + 2
    movw $0x8e00, idt + 8 + 4
    shr $16, %eax
    mov %ax, idt + 8 + 6
    lidt idtr
    mov $from, %eax
    mov %eax, %dr0
    mov $to, %eax
    mov %eax, %dr1
    /* DR0: reads and writes of 4 bytes, DR1: writes of 4 bytes */
    mov $0x00df0705, %eax
    mov %eax, %dr7
    xor %edx, %edx
    xor %ebx, %ebx
    mov $from, %esi
    mov $to, %edi
before:
    movsl
after:
    nop
    nop
ended:
    hlt
    jmp ended
handler:
    inc %edx
    mov %dr6, %ebx
    and $15, %ebx
    mov $0xffff0ff0, %ecx
    mov %ecx, %dr6
    iret
    .align 8
gdt:
    .quad 0, 0xcf9b000000ffff, 0xcf93000000ffff
gdtr:
    .word 23
    .long gdt
idtr:
    .word 0x7ff
    .long idt
    .bss
    .align 8
idt:
    .space 2048
from:
    .space 64
to:
    .space 64
    .space 4096
stack:
END
bare

# at NAME: its address in the program.  gdb is not told the file, which is of 32
# bits, while QEMU's target is of 64.
at() {
    nm "$DIR/bare" | sed -n "s/^\([0-9a-f]*\) . $1\$/0x\1/p"
}

# run SUITE WANTED COMMAND [continue]: where gdb stops, after it has been told
# this command at the label before and has continued, once or twice
run() {
    local root=$DIR/$1-qemu qemu seen
    rm -f "$DIR/gdb.sock"
    QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu \
        within "$root" usr/bin/qemu-system-x86_64 \
        -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" \
        -accel tcg -cpu max -nodefaults -display none -kernel "$DIR/bare" -S \
        -chardev "socket,id=gdb,path=$DIR/gdb.sock,server=on,wait=off" \
        -gdb chardev:gdb >"$DIR/log" 2>&1 </dev/null &
    qemu=$!
    for _ in {1..300}; do
        [ ! -S "$DIR/gdb.sock" ] || break
        sleep 0.1
    done
    # shellcheck disable=SC2016 # it is for gdb to expand
    timeout 60 "$BASH" -c "$(declare -f within); within \"\$@\"" - \
        "$DIR/gdb" usr/bin/gdb -q -nx -batch -ex "target remote $DIR/gdb.sock" \
        -ex "hbreak *$(at before)" -ex continue -ex 'delete 1' \
        -ex "hbreak *$(at ended)" -ex "$3" -ex continue \
        ${4:+-ex "$4"} \
        -ex 'printf "stopped at %#x, handled %d, DR6 %d\n", $pc, $edx, $ebx' \
        >"$DIR/gdb.log" 2>&1 </dev/null || :
    end_within "$qemu"
    seen=$(sed -n 's/^stopped at 0x/stopped at /p' "$DIR/gdb.log" |
        sed -f "$DIR/bare.names")
    [ -n "$seen" ] || {
        cat "$DIR/gdb.log" >&2
        skip "gdb has not come to the end"
    }
    say "$1, $3${4:+, $4}: $seen"
    [ "$seen" = "$2" ] || changed "not so with QEMU of $1"
}

# watch SUITE VERSION
watch() {
    local from to
    get_qemu "$1" "$2"
    from="*(int *)$(at from)"
    to="*(int *)$(at to)"
    run "$1" "stopped at ended, handled 1, DR6 1" "echo"
    run "$1" "stopped at after, handled 0, DR6 0" "awatch $from"
    run "$1" "stopped at ended, handled 0, DR6 0" "awatch $from" continue
    run "$1" "stopped at ended, handled 1, DR6 1" "watch $to"
}

from trixie
get_all "$DIR/gdb" gdb-minimal=16.3-1
watch trixie 1:10.0.13+ds-0+deb13u1
watch bookworm 1:7.2+dfsg-7+deb12u18+b3
watch sid 1:11.1.3+ds-1
say "SO IT IS: an instruction meets its first watchpoint, and no other"
