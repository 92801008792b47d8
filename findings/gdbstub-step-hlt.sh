#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A step of gdb over HLT in QEMU executes the instruction after HLT, too, and no
# handler of the interrupt that has ended it.
#
# One would guess:
#   stepi at HLT stops at the next instruction, or, when the guest is woken, in
#   the handler of the interrupt.  Or it waits for ever, since QEMU's gdbstub
#   steps without interrupts.
# What is so:
#   - The step waits until an interrupt is pending.  The interrupt, which ends
#     HLT, is not delivered; the instruction after HLT is executed, and the step
#     stops after that one.
#   - A breakpoint at the instruction after HLT does not stop the step.
#   - With `maintenance packet Qqemu.sstep=1` (steps with interrupts and timers)
#     the step stops at the handler's first instruction, and the instruction
#     after HLT has not been executed.
#   QEMU 7.2.22, 10.0.13 and 11.1.3 with TCG, gdb 16.3.
# Why it matters:
#   HLT is where an idle guest is found.  What steps the guest and notes each
#   address (a script of gdb, a tracer, a comparison with other traces) has no
#   place at which the instruction after HLT could be seen: if it is a CALL or a
#   RET, a level of the stack is lost.
# How to cope:
#   Step at HLT with Qqemu.sstep=1, or have the guest continue to a breakpoint
#   at the next instruction.
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
    mov %eax, %ss
    mov $handler, %eax
    mov %ax, idt + 8 * 0x20
    movw $8, idt + 8 * 0x20 + 2
    movw $0x8e00, idt + 8 * 0x20 + 4
    shr $16, %eax
    mov %ax, idt + 8 * 0x20 + 6
    lidt idtr
    /* The first interrupt controller's line 0 is vector 0x20, and no other */
    mov $0x11, %al
    out %al, $0x20
    mov $0x20, %al
    out %al, $0x21
    mov $4, %al
    out %al, $0x21
    mov $1, %al
    out %al, $0x21
    mov $0xfe, %al
    out %al, $0x21
    /* The timer fires once, after 55 ms */
    mov $0x30, %al
    out %al, $0x43
    mov $0xff, %al
    out %al, $0x40
    out %al, $0x40
    xor %edx, %edx
    sti
hlt_1:
    hlt
next_2:
    inc %edx
next_3:
    inc %edx
next_4:
    hlt
handler:
    nop
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
    .space 4096
stack:
END
bare

# at NAME: its address in the program.  gdb is not told the file, which is of 32
# bits, while QEMU's target is of 64.
at() {
    nm "$DIR/bare" | sed -n "s/^\([0-9a-f]*\) . $1\$/0x\1/p"
}

# step SUITE WANTED COMMAND...: what gdb has after these commands at HLT
step() {
    local root=$DIR/$1-qemu wanted=$2 qemu seen command args=()
    for command in "${@:3}"; do
        args+=(-ex "$command")
    done
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
        -ex "hbreak *$(at hlt_1)" -ex continue -ex 'delete 1' "${args[@]}" \
        -ex 'printf "stopped at %#x, edx %d\n", $pc, $edx' \
        >"$DIR/gdb.log" 2>&1 </dev/null || :
    end_within "$qemu"
    seen=$(sed -n 's/^stopped at 0x/stopped at /p' "$DIR/gdb.log" |
        sed -f "$DIR/bare.names")
    [ -n "$seen" ] || {
        cat "$DIR/gdb.log" >&2
        skip "gdb has not come to HLT"
    }
    say "$1, ${*:3}: $seen"
    [ "$seen" = "$wanted" ] || changed "not so with QEMU of $1"
}

# steps SUITE VERSION
steps() {
    get_qemu "$1" "$2"
    step "$1" "stopped at next_3, edx 1" stepi
    step "$1" "stopped at next_3, edx 1" "hbreak *$(at next_2)" stepi
    step "$1" "stopped at handler, edx 0" \
        "maintenance packet Qqemu.sstep=1" stepi
    step "$1" "stopped at next_2, edx 0" "hbreak *$(at next_2)" continue
}

from trixie
get_all "$DIR/gdb" gdb-minimal=16.3-1
steps trixie 1:10.0.13+ds-0+deb13u1
steps bookworm 1:7.2+dfsg-7+deb12u18+b3
steps sid 1:11.1.3+ds-1
say "SO IT IS: a step at HLT executes the next instruction, too"
