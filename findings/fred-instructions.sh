#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# libipt 2.1.2 takes the return from a kernel with FRED for an instruction that
# goes on with the next one; Zydis 4.1.1 does not know it.
#
# One would guess:
#   A library that decodes instructions says of one that is newer than itself
#   that it does not know it, and one for Intel PT stops there.
# What is so:
#   - ERETU (F3 0F 01 CA) and ERETS (F2 0F 01 CA) return from every system call,
#     interrupt and exception of Linux on a CPU with FRED.  libipt 2.0.5 and
#     2.1.2 say that each is an instruction of 4 bytes of the class "other", and
#     that the bytes after it come next: they see CLAC, whatever its prefix is.
#     libipt 2.2 has it as a far return, and wants a packet TIP.
#   - Of an instruction with the prefix REX2 of APX, libipt 2.0.5 and 2.1.2 say
#     that it has 2 bytes, and decode its rest as the next one.  JMPABS, the
#     branch that APX adds, is 2 bytes of "other" for them.
#   - Zydis 4.0.0 and 4.1.1, the newest of Debian, refuse ERETU, ERETS, JMPABS,
#     LKGS, which is in a kernel's switch of tasks, and the rest of APX; 4.0.0
#     refuses WRMSRNS, too.
#   libipt2 2.0.5-1 and libzydis4.0 4.0.0-1 (Debian 12), libipt2 2.1.2-1 and
#   libzydis4.1 4.1.1-1 (Debian 13), libipt2 2.2-1 (unstable).
# Why it matters:
#   Debian 13's gdb decodes Intel PT by libipt 2.1.2.  Where a trace crosses the
#   return of a kernel with FRED, the code after the return, which did not run,
#   is in the trace until a packet contradicts it.
# How to cope:
#   libipt 2.2.  Before a decoder is used for code of a newer CPU, ask it for
#   ERETU; F3 0F 01 CA is a return whoever decodes it.

. "$(dirname "$0")/lib.sh" || exit
need gcc

cat >"$DIR/samples.h" <<'END'
static const struct {
    const char *name, *bytes;
} samples[] = {
    { "eretu",   "\xf3\x0f\x01\xca\x90\x90\x90\x90\x90\x90\x90\x90" },
    { "erets",   "\xf2\x0f\x01\xca\x90\x90\x90\x90\x90\x90\x90\x90" },
    { "clac",    "\x0f\x01\xca\x90\x90\x90\x90\x90\x90\x90\x90\x90" },
    { "iretq",   "\x48\xcf\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90" },
    { "lkgs",    "\xf2\x0f\x00\xf0\x90\x90\x90\x90\x90\x90\x90\x90" },
    { "wrmsrns", "\x0f\x01\xc6\x90\x90\x90\x90\x90\x90\x90\x90\x90" },
    { "jmpabs",  "\xd5\x00\xa1\x00\x00\x40\x00\x00\x00\x00\x00\x90" },
    { "add r16", "\xd5\x10\x01\xc0\x90\x90\x90\x90\x90\x90\x90\x90" },
};
#define SAMPLES (sizeof(samples) / sizeof(samples[0]))
#define BYTES   12
END

cat >"$DIR/zydis.c" <<'END'
#include <stdio.h>
#include <Zydis/Zydis.h>
#include "samples.h"

int main(void)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        ZydisDisassembledInstruction insn;

        if (ZYAN_SUCCESS(ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64,
                                               0x401000, samples[i].bytes,
                                               BYTES, &insn))) {
            printf("Zydis: %s: %u bytes\n", samples[i].name, insn.info.length);
        } else {
            printf("Zydis: %s: not known\n", samples[i].name);
        }
    }
    return 0;
}
END

# PSB, 64-bit mode, FUP to the instruction, PSBEND; and an interrupt 8 bytes
# after it, so that libipt goes on.
cat >"$DIR/ipt.c" <<'END'
#include <intel-pt.h>
#include <stdio.h>
#include <string.h>
#include "samples.h"

#define AT 0x401000

static void put(struct pt_encoder *e, enum pt_packet_type type, uint64_t ip)
{
    struct pt_packet p = { .type = type };

    if (type == ppt_mode) {
        p.payload.mode.leaf = pt_mol_exec;
        p.payload.mode.bits.exec.csl = 1;
    } else if (type == ppt_fup || type == ppt_tip) {
        p.payload.ip.ipc = pt_ipc_sext_48;
        p.payload.ip.ip = ip;
    }
    pt_enc_next(e, &p);
}

static void ask(const char *name, const char *bytes)
{
    uint8_t stream[64], code[32];
    struct pt_image *image = pt_image_alloc(NULL);
    struct pt_insn_decoder *d;
    struct pt_encoder *e;
    struct pt_config c;
    uint64_t end;
    FILE *f;
    int status;

    memset(code, 0x90, sizeof(code));
    memcpy(code, bytes, BYTES);
    f = fopen("code", "wb");
    fwrite(code, 1, sizeof(code), f);
    fclose(f);
    pt_image_add_file(image, "code", 0, sizeof(code), NULL, AT);
    pt_config_init(&c);
    c.begin = stream;
    c.end = stream + sizeof(stream);
    e = pt_alloc_encoder(&c);
    put(e, ppt_psb, 0);
    put(e, ppt_mode, 0);
    put(e, ppt_fup, AT);
    put(e, ppt_psbend, 0);
    put(e, ppt_fup, AT + 20);
    put(e, ppt_tip, AT);
    pt_enc_get_offset(e, &end);
    pt_free_encoder(e);
    pt_config_init(&c);
    c.begin = stream;
    c.end = stream + end;
    d = pt_insn_alloc_decoder(&c);
    pt_insn_set_image(d, image);
    status = pt_insn_sync_forward(d);
    printf("libipt: %s:", name);
    for (int i = 0; i < 2; i++) {
        struct pt_insn insn = { 0 };
        struct pt_event event;

        while (status >= 0 && status & pts_event_pending) {
            status = pt_insn_event(d, &event, sizeof(event));
        }
        if (status >= 0) {
            status = pt_insn_next(d, &insn, sizeof(insn));
        }
        if (i) {
            printf(", then %s\n", insn.iclass == ptic_error ? "no other" :
                   "what is after it");
        } else {
            printf(" %u bytes, %s", insn.size,
                   insn.iclass == ptic_other ? "other" :
                   insn.iclass == ptic_far_return ? "far return" :
                   insn.iclass == ptic_jump ? "jump" : "something else");
        }
    }
    pt_insn_free_decoder(d);
    pt_image_free(image);
}

int main(void)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        ask(samples[i].name, samples[i].bytes);
    }
    return 0;
}
END

# built ROOT SOURCE LIBRARY: builds a program with what ROOT has, and runs it
built() {
    local lib=$1/usr/lib/x86_64-linux-gnu
    gcc -I "$1/usr/include" -o "$1/$2" "$DIR/$2.c" -L "$lib" \
        -Wl,-rpath-link,"$lib" "-l$3"
    (cd "$DIR" && within "$1" "$2")
}

# check SUITE SOURCE LIBRARY WANTED PACKAGE=VERSION...
check() {
    local suite=$1 source=$2 library=$3 wanted=$4 package found root=$DIR/$1-$2
    from "$suite"
    for package in "${@:5}"; do
        get_all "$root" "$package"
    done
    say "$suite: $5"
    found=$(built "$root" "$source" "$library")
    say "$found"
    [ "$found" = "$wanted" ] || changed "$5 says something else"
}

OLD='libipt: eretu: 4 bytes, other, then what is after it
libipt: erets: 4 bytes, other, then what is after it
libipt: clac: 3 bytes, other, then what is after it
libipt: iretq: 2 bytes, far return, then no other
libipt: lkgs: 4 bytes, other, then what is after it
libipt: wrmsrns: 3 bytes, other, then what is after it
libipt: jmpabs: 2 bytes, other, then what is after it
libipt: add r16: 2 bytes, other, then what is after it'
check bookworm ipt ipt "$OLD" libipt2=2.0.5-1 libipt-dev=2.0.5-1
check trixie ipt ipt "$OLD" libipt2=2.1.2-1 libipt-dev=2.1.2-1
check sid ipt ipt \
'libipt: eretu: 4 bytes, far return, then no other
libipt: erets: 4 bytes, far return, then no other
libipt: clac: 3 bytes, other, then what is after it
libipt: iretq: 2 bytes, far return, then no other
libipt: lkgs: 4 bytes, other, then what is after it
libipt: wrmsrns: 3 bytes, other, then what is after it
libipt: jmpabs: 11 bytes, jump, then no other
libipt: add r16: 4 bytes, other, then what is after it' \
    libipt2=2.2-1 libipt-dev=2.2-1

NEW='Zydis: eretu: not known
Zydis: erets: not known
Zydis: clac: 3 bytes
Zydis: iretq: 2 bytes
Zydis: lkgs: not known
Zydis: wrmsrns: 3 bytes
Zydis: jmpabs: not known
Zydis: add r16: not known'
check bookworm zydis Zydis "${NEW/wrmsrns: 3 bytes/wrmsrns: not known}" \
    libzydis4.0=4.0.0-1 libzydis-dev=4.0.0-1
check trixie zydis Zydis "$NEW" libzydis4.1=4.1.1-1 libzydis-dev=4.1.1-1
say "SO IT IS: libipt 2.1.2 goes on after ERETU, and Zydis 4.1.1 does not know it"
