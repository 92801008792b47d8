#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU's TCG lets a 16-bit jump leave its segment, if that stays on the page.
#
# One would guess:
#   IP has 16 bits in real mode.  A relative jump over the end of a segment of
#   64 KiB goes on at its beginning: the SDM's JMP, CALL, Jcc and LOOP clear bits
#   16 to 31 of the target with a 16-bit operand.  TCG does the same, whatever
#   the segment's base.
# What is so:
#   It depends on the base.  If the target without the wrap is on the same page
#   of linear addresses as the jump, TCG adds the distance to what it has for the
#   instruction pointer and cuts nothing: the guest goes on at IP 0x10005 where a
#   CPU goes to 5.  On another page it wraps.  With one-insn-per-tb=on, where
#   blocks are not chained, it always wraps.  QEMU 10.0.13.
# Why it matters:
#   One program of 16 bits takes another way as its segment begins elsewhere, and
#   as blocks are chained or not: with a debugger that steps, or a log, what was
#   looked for is gone.  A reader of such a trace sees a branch to an address
#   that no such instruction can lead to.
# How to cope:
#   Who decodes 16-bit code takes both for a jump's target.  A guest in which it
#   matters runs with -accel tcg,one-insn-per-tb=on.
#
# Takes a few seconds; fetches 60 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3
from trixie
get_all "$DIR/qemu" qemu-system-x86=1:10.0.13+ds-0+deb13u1

# A boot sector that jumps from IP 0xfff0 of a segment to 0x13 bytes after the
# instruction, over the end.  It ends QEMU with 1 if it is at IP 5 then, and with
# 2 if it is after the end of the segment.
cat >"$DIR/sector.py" <<'EOF'
import struct
import sys

base = int(sys.argv[1], 0)


def store(offset, what):        # movw $what, offset
    return b'\xc7\x06' + struct.pack('<HH', offset, what)


def end(number):                # movb $number, %al; outb %al, $0xf4
    return store(base + 5, 0xb0 | number << 8) + store(base + 7, 0xf4e6)


code = (b'\xfa\x31\xc0\x8e\xd8' +               # cli; %ds = 0
        end(1) +
        b'\xb8\x00\x10\x8e\xd8' +               # %ds = 0x1000
        end(2) +
        store(base - 0x10, 0x13eb) +            # jmp .+0x15
        b'\xea\xf0\xff' + struct.pack('<H', base >> 4))     # ljmp
sys.stdout.buffer.write(code.ljust(510, b'\0') + b'\x55\xaa')
EOF

# ends BASE ACCEL: what a QEMU ends with that runs it
ends() {
    local share=$DIR/qemu/usr/share status=0
    python3 "$DIR/sector.py" "$1" >"$DIR/disk"
    timeout 60 "$BASH" -c "$(declare -f within); within \"\$@\"" - \
        "$DIR/qemu" usr/bin/qemu-system-x86_64 -L "$share/qemu" \
        -L "$share/seabios" -nodefaults -display none -accel "$2" \
        -device isa-debug-exit,iobase=0xf4,iosize=4 \
        -drive "file=$DIR/disk,format=raw,if=ide" || status=$?
    case $status in
    3) echo wraps ;;
    5) echo "does not wrap" ;;
    *) echo "ends QEMU with $status" ;;
    esac
}

# expect BASE ACCEL WHAT
expect() {
    local found
    found=$(ends "$1" "$2")
    say "a segment at $1, -accel $2: the jump $found"
    [ "$found" = "$3" ] || changed "at $1 with $2 the jump $found"
}

# The page of the jump, and that of the target if IP did not wrap:
# 0x107f0 and 0x10805; 0x10ff0 and 0x11005
expect 0x800 tcg "does not wrap"
expect 0x1000 tcg "wraps"
expect 0x800 tcg,one-insn-per-tb=on "wraps"
expect 0x1000 tcg,one-insn-per-tb=on "wraps"
say "SO IT IS: TCG wraps IP, unless the target without that is on the same page"
