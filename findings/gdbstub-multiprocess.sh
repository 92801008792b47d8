#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# QEMU's gdbstub keeps "multiprocess" from one connection to the next.
#
# One would guess: what a gdb and a stub have agreed on by qSupported belongs to
# their connection.  One that does not offer multiprocess is told threads as
# "01".
#
# What is so: with QEMU 10.0.13, once a gdb has offered multiprocess, all later
# ones are told "p01.01", whether they have offered it or not.
#
# Why it matters: tools that speak a plain subset of the protocol, and proxies
# between gdb and QEMU, work until somebody has attached with gdb and left; then
# they do not know their own threads.  A gdb behind a proxy that has not offered
# it makes a second inferior, and waits for the first one without an end.
#
# How to cope: offer multiprocess always and take both forms; a proxy rewrites
# what the stub says of threads.
#
# Takes a minute; fetches 60 MB.

. "$(dirname "$0")/lib.sh" || exit
need pkill python3
from trixie
get_all "$DIR/qemu" qemu-system-x86=1:10.0.13+ds-0+deb13u1
cat >"$DIR/ask.py" <<'EOF'
import re
import socket
import sys
import time


class Gdb:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        for _ in range(300):
            try:
                self.socket.connect(sys.argv[1])
                break
            except OSError:
                time.sleep(0.1)
        self.heard = b''

    def ask(self, request):
        data = request.encode()
        self.socket.sendall(b'+$%s#%02x' % (data, sum(data) & 255))
        while not (answer := re.search(rb'\$([^#]*)#..', self.heard)):
            data = self.socket.recv(4096)
            if not data:
                sys.exit('QEMU has hung up')
            self.heard += data
        self.heard = self.heard[answer.end():]
        self.socket.sendall(b'+')
        return answer[1].decode()


for offered in 'swbreak+', 'multiprocess+;swbreak+', 'swbreak+':
    gdb = Gdb()
    gdb.ask('qSupported:' + offered)
    print(offered, gdb.ask('qC'), gdb.ask('?'))
    gdb.socket.close()
    time.sleep(1)
EOF
within "$DIR/qemu" usr/bin/qemu-system-x86_64 --version | head -n 1
QEMU_MODULE_DIR=$DIR/qemu/usr/lib/x86_64-linux-gnu/qemu \
    within "$DIR/qemu" usr/bin/qemu-system-x86_64 \
    -L "$DIR/qemu/usr/share/qemu" -L "$DIR/qemu/usr/share/seabios" \
    -accel tcg -nodefaults -display none -S \
    -chardev "socket,id=gdb,path=$DIR/gdb,server=on,wait=off" \
    -gdb chardev:gdb >"$DIR/log" 2>&1 </dev/null &
qemu=$!
python3 "$DIR/ask.py" "$DIR/gdb" >"$DIR/answers" || {
    cat "$DIR/log" >&2
    end_within "$qemu"
    skip "this QEMU does not run here"
}
end_within "$qemu"
cat "$DIR/answers"
diff - "$DIR/answers" >&2 <<'EOF' || changed "QEMU has other words for threads"
swbreak+ QC01 T05thread:01;
multiprocess+;swbreak+ QCp01.01 T05thread:p01.01;
swbreak+ QCp01.01 T05thread:p01.01;
EOF
say "SO IT IS: who has not offered multiprocess is told p01.01 after one who has"
