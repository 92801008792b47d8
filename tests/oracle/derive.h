/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of derive: see derive.c
 */
#ifndef DERIVE_H
#define DERIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "insn.h"

#define CODE_MAX        8192        /* bytes in a block */
#define CHAIN_MAX       64          /* interruptions between two instructions */
#define FRAMES_MAX      16

/* A translated block.  Never freed: a step may still point to it. */
struct code {
    struct code *before;    /* what was translated to the same place */
    unsigned len, insns;
    uint16_t *offset;       /* of each instruction, and one for the end */
    uint8_t *bytes;
    uint8_t listed;         /* mode + 1 for which it is in PREFIX.insns */
};

struct slot {
    uint64_t host;          /* address of the translation, 0 = free */
    struct code *code;
};

struct regs {
    bool valid;
    uint64_t ip, sp, cx, ss_base, cs_base;
    uint64_t cr0, cr3, cr4;
    uint64_t space;         /* what the trace has for CR3 */
    uint32_t flags;
    bool is64;
};

/* A block that was executed */
struct step {
    bool valid;
    uint64_t start, cs_base;
    uint32_t flags;
    unsigned max_insns;     /* asked of the translator, 0 = no limit */
    bool resumes;           /* continues in the middle of the one before */
    struct code *code;
    struct insn last;       /* the only one that can branch */
    struct regs regs;       /* before its last instruction */
    bool loads_cr3;         /* by the log */
    bool know_cr3;          /* what the trace has then: */
    uint64_t new_cr3;
};

struct interruption {
    enum kind kind;
    unsigned vector;        /* K_EXCEPTION: vector; K_VMEXIT: exit code */
    bool have_from;
    uint64_t from;
    uint64_t base;          /* of CS there, 0 in 64-bit mode */
    bool have_cr3;
    uint64_t cr3;
    bool exits;             /* its delivery ended in a #VMEXIT */
    bool loads_cr3;
};

struct record {
    uint64_t from, to, flags;
};

/*
 * A record whose interrupted address is not in the log: an interrupt in real
 * mode after a branch whose target depends on memory, or in a string
 * instruction that may or may not continue.  The iret that takes the frame
 * off the stack shows it.
 */
struct pending_frame {
    uint64_t sp;            /* linear address of the frame */
    int64_t to_patch;       /* record whose .to it is, -1 if none */
    int64_t from_patch;     /* record whose .from it is, -1 if not made yet */
};

struct derive {
    /* What the log has said of blocks (log.c) */
    uint64_t line_no;
    struct slot *table;         /* by the host address of the translation */
    size_t table_size, table_used;
    uint8_t fresh[CODE_MAX];    /* bytes printed, not bound to a block yet */
    unsigned fresh_len;
    struct regs *dump_to;       /* whose register dump is read */
    struct regs dump_regs;

    /* What was executed last, and what may have been started after it */
    struct step prev, cand;
    /* What has interrupted it, and what the log has announced */
    struct interruption chain[CHAIN_MAX];
    int chain_len;
    bool saw_exception, saw_hardware, saw_injection, failed_vmrun;
    unsigned exception_vector;
    bool have_hint;             /* where it was interrupted */
    uint64_t hint;

    /* Records that are not written yet, and how many are (flow.c) */
    struct record *queue;
    size_t queue_len, queue_size;
    uint64_t flushed;
    struct pending_frame frames[FRAMES_MAX];
    int frame_count;

    /* The address space, since this record */
    bool span_known;
    bool nested, span_nested;   /* a nested guest runs */
    uint64_t span_cr3, span_start;

    /* Of what has executed; doubt: QEMU may have counted one more */
    bool doubt;
    uint64_t insn_count, interruption_count, resumed_count;
    uint64_t count[K_MAX][M_MAX];
    uint64_t vectors[256];

    FILE *out_records, *out_spans, *out_resets, *out_insns, *out_code;
};

/* Prints why, and where in the log, and ends the program. */
void __attribute__((noreturn, format(printf, 2, 3)))
fail(const struct derive *d, const char *fmt, ...);

/* Returns p, unless there was no memory for it. */
void *must(const struct derive *d, void *p);

#endif
