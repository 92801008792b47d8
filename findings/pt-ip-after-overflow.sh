#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# After an overflow of Intel PT, libipt and perf decompress an address
# differently.
#
# One would guess:
#   A packet with an address leaves out the upper bytes that are those of the
#   last one.  The SDM says where that "Last IP" is reset: at a PSB.  So the FUP
#   after an OVF packet, which says where the trace goes on, is read with the
#   address before the overflow, by everybody.
# What is so:
#   perf does so.  libipt forgets the last address at an OVF, and takes it as 0
#   from there on: of a FUP with 16 bits it makes an address below 65536.
#   libipt 2.0.5 and perf 6.1.176 (Debian 12).
# Why it matters:
#   Both are in use, so CPUs seem to write whole addresses there; but nobody
#   says so.  Who makes streams, for tests or in an emulated CPU, and compresses
#   as the SDM has it finds that libipt ends with "no memory mapped" after each
#   overflow, and goes on at the next PSB; by perf alone they look right.
# How to cope:
#   Write the first address after an OVF whole.  When decoding, keep the last
#   address: a whole one does not need it.
#
# Takes a few seconds; fetches 50 MB.

. "$(dirname "$0")/lib.sh" || exit
need gcc python3
from bookworm
get_all "$DIR/root" libipt-dev=2.0.5-1
lib=$DIR/root/usr/lib/x86_64-linux-gnu

# A program: two indirect jumps, 64 bytes from each other
cat >"$DIR/jumps.s" <<'END'
    .globl _start
_start:
    .balign 64, 0x90
    .skip 64, 0x90
    jmp *%rax
    .balign 64, 0x90
    jmp *%rax
END
gcc -nostdlib -static -Wl,-Ttext=0x401000 -Wl,--build-id=none \
    -o "$DIR/jumps" "$DIR/jumps.s"

# The stream, and a file of perf of a thread that executes the program
cat >"$DIR/make.py" <<'END'
import os
import struct
import sys

stream, data, program = sys.argv[1:]


def ip(opcode, address, size):  # with 16 bits, or with 48
    return bytes([opcode | (1 if size == 2 else 3) << 5]) + \
        address.to_bytes(8, 'little')[:size]


FUP, TIP = 0x1d, 0x0d
raw = (b'\x02\x82' * 8 +                        # PSB
       b'\x99\x01' +                            # MODE.Exec: 64 bits
       ip(FUP, 0x401000, 6) + b'\x02\x23' +     # FUP, PSBEND
       b'\x02\xf3' +                            # OVF
       ip(FUP, 0x401040, 2) +
       ip(TIP, 0x401080, 2) + ip(TIP, 0x401040, 2))
with open(stream, 'wb') as f:
    f.write(raw)
raw += bytes(-len(raw) % 8)

TSC, PMU, THREAD, ID = 1 << 10, 8, 1000, 1


def event(kind, body, misc=0):
    return struct.pack('<IHH', kind, misc, 8 + len(body)) + body


def text(value):
    return value.encode() + bytes(8 - len(value) % 8)


ids = struct.pack('<IIQ', THREAD, THREAD, ID)
private = [PMU, 0, 0, 0, 0, TSC, 1 << 11] + [0] * 11
info = event(70, struct.pack('<II18Q', 1, 0, *private))
comm = event(3, struct.pack('<II', THREAD, THREAD) + text('jumps') + ids)
mmap = event(10, struct.pack('<IIQQQIIQQII', THREAD, THREAD, 0x401000, 0x1000,
                             0x1000, 8, 1, os.stat(program).st_ino, 0, 5, 2) +
             text(program) + ids, 2)
aux = event(71, struct.pack('<QQQIIII', len(raw), 0, 0, 0, THREAD, 2**32 - 1,
                            0))
events = info + comm + mmap + aux + raw
attr = struct.pack('<IIQQQQQ', PMU, 128, 1 | 1 << 13 | TSC | 1 << 11, 1,
                   1 | 2 | 1 << 16, 0, 1 << 18 | 1 << 23).ljust(128, b'\0')
at = 104 + 8 + 144
index = struct.pack('<QQQ', 1, at + len(info + comm + mmap), len(aux))
with open(data, 'wb') as f:
    f.write(struct.pack('<8s8Q', b'PERFILE2', 104, 144, 112, 144, at,
                        len(events), 0, 0) + (1 << 18).to_bytes(32, 'little'))
    f.write(struct.pack('<Q', ID) + attr + struct.pack('<QQ', 104, 8))
    f.write(events)
    f.write(struct.pack('<QQ', at + len(events) + 16, len(index)) + index)
END
python3 "$DIR/make.py" "$DIR/stream" "$DIR/perf.data" "$DIR/jumps"

cat >"$DIR/where.c" <<'END'
#include <inttypes.h>
#include <stdio.h>
#include <intel-pt.h>

int main(int argc, char **argv)
{
    static uint8_t bytes[4096];
    FILE *f = fopen(argv[1], "rb");
    struct pt_query_decoder *d;
    struct pt_config c;
    struct pt_event e;
    uint64_t ip;
    int status;

    pt_config_init(&c);
    c.begin = bytes;
    c.end = bytes + fread(bytes, 1, sizeof(bytes), f);
    d = pt_qry_alloc_decoder(&c);
    status = pt_qry_sync_forward(d, &ip);
    while (status >= 0 && status & pts_event_pending) {
        status = pt_qry_event(d, &e, sizeof(e));
        if (status >= 0 && e.type == ptev_overflow) {
            printf("0x%" PRIx64 "\n", e.variant.overflow.ip);
        }
    }
    return 0;
}
END
gcc -I "$DIR/root/usr/include" -o "$DIR/root/where" "$DIR/where.c" -L "$lib" \
    -Wl,-rpath-link,"$lib" -lipt
libipt=$(within "$DIR/root" where "$DIR/stream")
say "libipt: after the overflow it goes on at $libipt"
[ "$libipt" = 0x1040 ] || changed "libipt goes on at $libipt"

get_all "$DIR/perf" linux-perf=6.1.176-1
perf=$(within "$DIR/perf" usr/bin/perf script -i "$DIR/perf.data" --itrace=b \
    -F ip,addr 2>/dev/null | tr -s ' ' | grep -v '^ *0 ') || :
say "perf: its first branch after the overflow is$(head -n 1 <<<"$perf")"
grep -q '401040 => 401080' <<<"$perf" || changed "perf says: $perf"
say "SO IT IS"
