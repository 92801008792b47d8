/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A PT stream of what a vCPU did, as a CPU would have written it
 */
#ifndef ENCODE_H
#define ENCODE_H

#include "truth.h"

/* Which RETs have a TNT bit in place of a TIP */
enum encode_ret {
    ENCODE_RET_ALL_TIP,         /* none: noretcomp */
    ENCODE_RET_POP_ALL,         /* a RET takes an address off the CPU's stack */
    ENCODE_RET_POP_COMPRESSED,  /* only one that has a TNT bit does */
};

enum encode_select {
    ENCODE_SELECT_ALL,
    ENCODE_SELECT_KERNEL,       /* USR = 0; no hypervisor */
    ENCODE_SELECT_USER,         /* OS = 0 */
};

/* Packets that say nothing of branches; the last two only the host has. */
#define ENCODE_NOISE_PAD        1u
#define ENCODE_NOISE_CBR        2u
#define ENCODE_NOISE_MNT        4u
#define ENCODE_NOISE_STOPS      8u
#define ENCODE_NOISE_KINDS      4u
#define ENCODE_NOISE_MWAIT      16u
#define ENCODE_NOISE_PTW        32u
#define ENCODE_NOISE_HOST_KINDS 6u
#define ENCODE_NOISE_ALL        63u

/* Each number of records is one of how often something happens; 0: never */
struct encode_options {
    uint32_t seed;
    unsigned psb;               /* bytes between two */
    unsigned tnt;               /* most bits of a TNT: 6 or 47 */
    enum encode_ret ret;
    enum encode_select select;
    uint64_t root;              /* with USER: this address space; 0: any */
    uint64_t low, high;         /* an address filter, if not equal */
    uint64_t shift;             /* added to each address */
    unsigned exits;             /* VM exits */
    unsigned overflows;
    unsigned noise;             /* packets that say nothing of branches */
    unsigned noise_kinds;       /* ENCODE_NOISE_* */
    unsigned cuts;              /* how often bytes are missing */
    int mtc;                    /* the period, as in RTIT_CTL; -1: no MTC */
    bool cyc;
    bool begin;                 /* the first bytes are missing, too */
    bool deferred;              /* TIPs */
    bool any_form;              /* of IPs */
    bool natural;               /* HLT and CPUID exit */
    bool inject;                /* interrupts come with VM entries */
    bool sleeps;                /* the vCPU's thread is scheduled out */
    bool int_fup;               /* INT n has a FUP before its TIP */
    uint64_t host_tsc;          /* what the host's has more than the guest's */
    uint64_t narrow;            /* programs have code of 32 bits from this address
                                 * up to 4 GiB; 0: as their code can be walked */
    bool part;                  /* of a stream that goes on: record 0 is the
                                 * last one of the part before */
};

/* What a decoder can know of a record */
enum encode_known {
    ENCODE_LOST,                /* nothing: it must not come */
    ENCODE_DETERMINED,          /* it must come */
    ENCODE_PARTLY,              /* of one of its addresses nothing */
};

enum encode_place_kind {
    ENCODE_PSB,
    ENCODE_OVF,
    ENCODE_CUT,                 /* bytes are missing before @offset */
    ENCODE_ON,                  /* TIP.PGE */
    ENCODE_ENTRY,               /* PIP of a VM entry */
};

struct encode_place {
    uint64_t offset;            /* in the stream */
    uint64_t at;                /* the first record that is known from there */
    uint64_t tsc;
    enum encode_place_kind kind;
};

struct encode_counts {
    uint64_t insns, exits, overflows, injected, fups, psbs, host_bytes, failed,
        slept, deferred, undetermined_loops, compressed;
};

struct encoded {
    GByteArray *bytes;
    uint8_t *known;             /* enum encode_known of each record */
    GArray *places;             /* of struct encode_place */
    struct encode_counts counts;
    uint64_t forms[8];
};

void encode(struct truth *t, const struct encode_options *o,
            struct encoded *result);

#endif
