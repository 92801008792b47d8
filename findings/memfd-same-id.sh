#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU 10.0: a memory backend that is created right after one of the same id was
# deleted has the file of that one, and then no descriptor of it at all.
#
# One would guess: object-del followed by object-add gives a new memfd, with
# new, empty memory, whatever the id is.
#
# What is so: with QEMU 10.0.13, object-del of a memory-backend-memfd whose DIMM
# has just been unplugged returns before its memory is freed, since flat views
# have it until RCU's grace period is over.  The list of descriptors for CPR
# still has it under its id, so object-add with that id takes it.  When the
# grace period is over, the old memory is freed, and this descriptor with it.
# The backend stays, without an open file; the number is that of whatever is
# opened next.  With half a second in between there is a new memfd.
#
# Why it matters: whoever is given the descriptor of a guest's memory, a
# vhost-user device for example, or whoever looks it up in /proc/PID/fd, gets
# another file or none, and what the old DIMM had is in the new one.
#
# How to cope: a new id each time, or time before object-add.
#
# Takes half a minute; fetches 70 MB; boots no guest.

. "$(dirname "$0")/lib.sh" || exit
need timeout /usr/bin/python3
from trixie
get_all "$DIR/qemu" qemu-system-x86=1:10.0.13+ds-0+deb13u1

cat >"$DIR/swap.py" <<'EOS'
"""Unplugs a DIMM and deletes its backend, and adds one of the same id.

Prints the inodes of the open memfds: before, and two seconds after.
"""
import json
import os
import socket
import sys
import time

folder, pid, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])


def connect(name):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(os.path.join(folder, name))
    return s.makefile('rw')


def memfds():
    found = []
    for fd in os.listdir(f'/proc/{pid}/fd'):
        path = f'/proc/{pid}/fd/{fd}'
        if 'memory-backend-memfd' in os.readlink(path):
            found.append(os.stat(path).st_ino)
    return found


def execute(command, **arguments):
    qmp.write(json.dumps({'execute': command, 'arguments': arguments}))
    qmp.flush()
    while True:
        answer = json.loads(qmp.readline())
        if 'return' in answer:
            return answer['return']
        if 'error' in answer:
            sys.exit(answer['error']['desc'])


def outl(port, value, size='l'):
    qtest.write(f'out{size} {port:#x} {value:#x}\n')
    qtest.flush()
    assert qtest.readline() == 'OK\n'


qmp, qtest = connect('qmp'), connect('qtest')
qmp.readline()
execute('qmp_capabilities')
backend = {'qom-type': 'memory-backend-memfd', 'id': 'm', 'size': 128 << 20}
execute('object-add', **backend)
execute('device_add', driver='pc-dimm', memdev='m', id='d')
before = memfds()
# As firmware does when the guest's kernel lets it eject the DIMM in slot 0
outl(0xa00, 0)
outl(0xa14, 8, 'b')
execute('object-del', id='m')
time.sleep(pause)
execute('object-add', **backend)
at_once = memfds()
time.sleep(2)
assert 'm' in [m.get('id') for m in execute('query-memdev')]
after = memfds()
print('one file before' if len(before) == 1 else before,
      'the same' if at_once == before else 'another one',
      'none' if not after else 'the same' if after == before else
      'another one', sep=', ')
execute('quit')
EOS

look() {
    local seen
    rm -f "$DIR/qmp" "$DIR/qtest" "$DIR/pid"
    QEMU_MODULE_DIR=$DIR/qemu/usr/lib/x86_64-linux-gnu/qemu \
        within "$DIR/qemu" usr/bin/qemu-system-x86_64 \
        -L "$DIR/qemu/usr/share/qemu" -L "$DIR/qemu/usr/share/seabios" \
        -machine pc -accel tcg -m 128M,slots=1,maxmem=1G -nodefaults \
        -display none -S -daemonize -pidfile "$DIR/pid" \
        -qmp "unix:$DIR/qmp,server=on,wait=off" \
        -qtest "unix:$DIR/qtest,server=on,wait=off" >"$DIR/qemu.log" 2>&1 || {
        cat "$DIR/qemu.log" >&2
        skip "QEMU did not start"
    }
    seen=$(timeout 60 /usr/bin/python3 "$DIR/swap.py" "$DIR" \
        "$(cat "$DIR/pid")" "$1") || {
        kill "$(cat "$DIR/pid")"
        changed "QEMU did not do what was asked"
    }
    say "$1 seconds after object-del: $seen"
    [ "$seen" = "$2" ] || changed "it was: $2"
}

within "$DIR/qemu" usr/bin/qemu-system-x86_64 --version | head -n 1
look 0.5 "one file before, another one, another one"
look 0 "one file before, the same, none"
say "SO IT IS: the file of the deleted backend, which is closed then"
