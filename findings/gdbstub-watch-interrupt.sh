#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A watchpoint of gdb on memory that an interrupt of a QEMU guest uses loses the
# interrupt, and does not stop.
#
# One would guess:
#   A watchpoint on what the CPU pushes for an interrupt stops the guest at the
#   interrupt, as it does at a CALL that pushes to the same address, or does not
#   see this write.  What the guest does is the same with it and without.
# What is so:
#   - With a watchpoint for writes on the frame of an interrupt, gdb is told of
#     nothing, and the guest never has that interrupt: its handler does not run.
#     HLT has ended all the same.
#   - The same is true of a watchpoint for reads on the interrupt's entry in the
#     table (IDT) and on the segment that the entry names (GDT).
#   - At a CALL the watchpoint stops after the instruction, as it should.
#   QEMU 7.2.22, 10.0.13 and 11.1.3 with TCG, gdb 16.3.
# Why it matters:
#   Who looks for what has written to a stack of a kernel, which is what
#   watchpoints are for, changes the guest by it: a timer that is lost, a disk
#   that does not answer, a guest that hangs as it does not without gdb.  That
#   the watchpoint has not been hit does not say that nobody has written there.
# How to cope:
#   Watch no memory that the CPU uses by itself: stacks at or below their
#   pointer, IDT, GDT.  A guest that hangs with a watchpoint need not hang
#   without it.
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
before:
    call called
after_call:
    sti
    hlt
    cli
ended:
    hlt
    jmp ended
called:
    ret
handler:
    inc %edx
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

# run SUITE WANTED COMMAND: where gdb stops, after it has been told this command
# at the label before
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
        -ex 'printf "stopped at %#x, handled %d\n", $pc, $edx' \
        >"$DIR/gdb.log" 2>&1 </dev/null || :
    end_within "$qemu"
    seen=$(sed -n 's/^stopped at 0x/stopped at /p' "$DIR/gdb.log" |
        sed -f "$DIR/bare.names")
    [ -n "$seen" ] || {
        cat "$DIR/gdb.log" >&2
        skip "gdb has not come to the end"
    }
    say "$1, $3: $seen"
    [ "$seen" = "$2" ] || changed "not so with QEMU of $1"
}

# watch SUITE VERSION
watch() {
    local stack
    get_qemu "$1" "$2"
    stack=$(at stack)
    run "$1" "stopped at ended, handled 1" "echo"
    # The call pushes 4 bytes, the interrupt 12: flags, CS and EIP.
    run "$1" "stopped at called, handled 0" "watch *(int *)($stack - 4)"
    run "$1" "stopped at ended, handled 0" "watch *(int *)($stack - 8)"
    run "$1" "stopped at ended, handled 0" \
        "rwatch *(int *)($(at idt) + 8 * 0x20)"
    run "$1" "stopped at ended, handled 0" "rwatch *(int *)($(at gdt) + 8)"
}

from trixie
get_all "$DIR/gdb" gdb-minimal=16.3-1
watch trixie 1:10.0.13+ds-0+deb13u1
watch bookworm 1:7.2+dfsg-7+deb12u18+b3
watch sid 1:11.1.3+ds-1
say "SO IT IS: a watchpoint that an interrupt would hit loses the interrupt"
