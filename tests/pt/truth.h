/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a vCPU did, as TCG has recorded it, with the code that it executed
 *
 * The encoder makes a PT stream of it, and the judges compare with it what
 * others decode of that stream.  Nothing here is shared with the decoder.
 */
#ifndef TRUTH_H
#define TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "backtrail/code.h"

/* What an instruction does to a PT stream */
enum insn_kind {
    INSN_NONE,
    INSN_PLAIN,                 /* nothing */
    INSN_JCC,                   /* TNT */
    INSN_JMP,
    INSN_CALL,
    INSN_JMP_TO,                /* TIP: near and indirect */
    INSN_CALL_TO,
    INSN_RET,
    INSN_FAR,                   /* TIP: far */
    INSN_INT,                   /* INT n and its like: FUP, TIP */
    INSN_INTO,                  /* as INT, if it traps */
    INSN_CR3,                   /* PIP: loads CR3 */
    INSN_CR,                    /* loads CR0 or CR4, which can change paging */
    INSN_EXITS,                 /* of a guest, a hypervisor executes it */
    INSN_MAY_EXIT,              /* it does if it wants; else nothing */
    INSN_RSM,                   /* so it does this one, which goes elsewhere */
    INSN_BAD,
};

struct truth_insn {
    uint8_t kind;
    uint8_t length;
    bool narrow;                /* a branch that clears bits 16 on of IP */
    int32_t relative;
};

struct truth_record {
    uint64_t from;
    uint64_t to;
};

/* From the record at @at on */
struct truth_cr3 {
    uint64_t at;
    uint64_t cr3;
};

struct truth_time {
    uint64_t at;
    uint64_t tsc;
};

/* Between the record before @at and that, others are missing, or may be. */
struct truth_gap {
    uint64_t at;
    uint64_t index;             /* in the trace, of the record at @at */
};

struct truth {
    struct btrail_trace *trace;
    struct btrail_code *code;
    unsigned vcpu;
    uint64_t first;             /* index in the trace of record 0 */
    uint64_t n;
    struct truth_record *r;
    GArray *cr3;                /* of struct truth_cr3 */
    GArray *times;              /* of struct truth_time */
    GArray *gaps;               /* of struct truth_gap */
    GHashTable *pages;
    GHashTable *contents;
    struct truth_near *near;
};

/* Reads at most @n records from index @first on; exits on errors. */
void truth_load(struct truth *t, const char *path, unsigned vcpu,
                uint64_t first, uint64_t n);
void truth_free(struct truth *t);

/* The index in the trace of the record at @at */
uint64_t truth_index(const struct truth *t, uint64_t at);

/* The label of the record at @at */
uint64_t truth_label(const struct truth *t, uint64_t at);

/* What PIP has of a label */
uint64_t truth_pip(uint64_t label);

/* The TSC at the record at @at: between two TIME events, as if evenly spread */
uint64_t truth_tsc(const struct truth *t, uint64_t at);

/*
 * Bytes as executed between the records at @at - 1 and @at, with a label;
 * returns how many are known.
 */
size_t truth_code(struct truth *t, uint64_t at, uint64_t label,
                  uint64_t address, uint8_t *buf, size_t n);

/*
 * Calls @each for each page that was executed, with the content that it had
 * last, and how many it had.  @root is 0 for those of the upper half.
 */
typedef void truth_page_fn(void *opaque, uint64_t root, uint64_t address,
                           const uint8_t *bytes, unsigned contents);
void truth_pages(struct truth *t, truth_page_fn *each, void *opaque);

/* The instruction there; INSN_NONE if its bytes are not known */
struct truth_insn truth_insn(struct truth *t, uint64_t at, uint64_t label,
                             unsigned bits, uint64_t address);

#endif
