#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU loses what a guest's serial port is sent, while it records for a replay.
#
# One would guess:
#   A serial port has flow control towards the host: QEMU asks how much room the
#   FIFO of the UART has, and leaves the rest in the socket.  A guest that reads
#   its port gets all bytes, whether it is recorded (-icount rr=record) or not.
# What is so:
#   The room is asked for when bytes come from the host.  But a recorder does not
#   give them to the device: it queues them as an event, and asks again before
#   the device has them.  So more come than there is room for, and the UART drops
#   what exceeds its 16 bytes.  A guest that does nothing but read and echo gets
#   fewer than 200 bytes of 200 that were sent at once, with holes from the 17th
#   on; without rr=record, or in pieces of 16 with a pause, it gets all.  QEMU
#   10.0.13.
# Why it matters:
#   A recording of a guest that a script types into is of another run than was
#   meant: a command has lost letters, or never comes.  The replay has the same
#   holes, so nothing shows that it was the recorder.
# How to cope:
#   Send a recorded guest at most 16 bytes, and wait until it has echoed them.
#
# Takes half a minute; fetches 60 MB.

. "$(dirname "$0")/lib.sh" || exit
need python3
from trixie
get_all "$DIR/qemu" qemu-system-x86=1:10.0.13+ds-0+deb13u1

# Firmware that switches the FIFO of the UART on, and echoes; and what sends it
# bytes, and says how many have come back.
cat >"$DIR/echo.py" <<'EOF'
import socket
import sys
import time

SENT = 200


def firmware(path):
    code = (b'\xba\xfa\x03\xb0\x07\xee'     # the FIFO: outb $7, $0x3fa
            b'\xba\xfd\x03\xec\xa8\x01\x74\xf8'     # until there is a byte
            b'\xba\xf8\x03\xec\xee\xeb\xf1')        # echo it
    rom = bytearray(code.ljust(0x10000, b'\xf4'))
    rom[0xfff0:0xfff5] = b'\xea\x00\x00\x00\xf0'    # ljmp $0xf000, $0
    with open(path, 'wb') as file:
        file.write(rom)


def echoed(path, piece):
    port = socket.socket(socket.AF_UNIX)
    for _ in range(300):
        try:
            port.connect(path)
            break
        except OSError:
            time.sleep(0.1)
    port.settimeout(3)
    time.sleep(1)
    sent = bytes(33 + i % 90 for i in range(SENT))
    got = b''
    try:
        for i in range(0, SENT, piece):
            port.sendall(sent[i:i + piece])
            if piece < SENT:
                # All of a piece, or what there is in three seconds
                while len(got) < i + len(sent[i:i + piece]):
                    got += port.recv(4096)
        while len(got) < SENT:
            got += port.recv(4096)
    except socket.timeout:
        pass
    if got == sent:
        return 'all bytes come back'
    return 'the first 16 bytes come back, and others do not' \
        if len(got) < SENT and got[:16] == sent[:16] else f'{got!r} comes back'


if sys.argv[1] == 'firmware':
    firmware(sys.argv[2])
else:
    print(echoed(sys.argv[1], int(sys.argv[2])))
EOF
python3 "$DIR/echo.py" firmware "$DIR/rom"

# expect WHAT PIECE [MODE]
expect() {
    local want=$1 piece=$2 share=$DIR/qemu/usr/share port mode=() found pid
    port=$(mktemp -u "$DIR/port-XXXXXX")
    [ -z "${3:-}" ] || mode=(-icount "$3")
    [[ "${3:-}" != *rr=* ]] || mode[1]+=,rrfile=$port.log
    timeout 60 "$BASH" -c "$(declare -f within); within \"\$@\"" - \
        "$DIR/qemu" usr/bin/qemu-system-x86_64 -L "$share/qemu" \
        -L "$share/seabios" -nodefaults -display none -accel tcg \
        -bios "$DIR/rom" -serial chardev:port "${mode[@]}" \
        -chardev "socket,id=port,path=$port,server=on,wait=off" \
        2>/dev/null &
    pid=$!
    found=$(python3 "$DIR/echo.py" "$port" "$piece")
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
    say "200 bytes, $piece at once, -icount ${3:-none}: $found"
    [ "$found" = "$want" ] || changed "$found"
}

expect "all bytes come back" 200
expect "all bytes come back" 200 shift=1
expect "the first 16 bytes come back, and others do not" 200 shift=1,rr=record
expect "all bytes come back" 16 shift=1,rr=record
say "SO IT IS: a recorder loses what is sent faster than the guest reads"
