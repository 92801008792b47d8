/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fingerprints of a trace: what another trace of the same recording must have
 *
 * A chain goes over all records in their order, with the page tables that were
 * loaded, and each fingerprint is its state after a number of records.  Two
 * traces with the same fingerprint are the same up to there.  Chains protect
 * against bad luck, not against somebody who wants two traces to look alike.
 */

#ifndef BTRAIL_FINGERPRINT_H
#define BTRAIL_FINGERPRINT_H

#include "backtrail/trace.h"
#include "lib/agent/stream.h"
#include "util/agent-error.h"

/* Records between two fingerprints of a vCPU */
#define FINGERPRINT_INTERVAL    (UINT64_C(1) << 20)

/**
 * struct fingerprint
 * @vcpu:    of the stream
 * @records: from its beginning
 * @chain:   over them
 */
struct fingerprint {
    uint32_t vcpu;
    uint64_t records;
    uint64_t chain[2];
};

/* Fingerprints that are being made of streams */
struct fingerprinter;

struct fingerprinter *fingerprinter_new(void);
void fingerprinter_free(struct fingerprinter *f);

/* What shows it the streams of a trace while that is written */
const struct btrail_stream_observer *
fingerprinter_observer(struct fingerprinter *f);

/*
 * What it has made, of struct fingerprint, and at the end of each stream; a
 * record that is missing is an error.
 */
GArray *fingerprinter_finish(struct fingerprinter *f, GError **error);

/* The same, of a trace that is there */
GArray *fingerprint_trace(const struct btrail_trace *trace, GError **error);

/* Writes them into a file, and reads them. */
bool fingerprint_save(const char *path, const GArray *prints, GError **error);
GArray *fingerprint_load(const char *path, GError **error);
GArray *fingerprint_parse(const char *text, GError **error);

/* Records of each path from where two traces diverge */
#define FINGERPRINT_PATH    4

/**
 * struct fingerprint_path - how a trace continues
 * @records: the first ones; zero after the end of its stream
 * @count:   how many there are
 * @icount:  of the first one, or BTRAIL_NO_ICOUNT
 */
struct fingerprint_path {
    struct btrail_record records[FINGERPRINT_PATH];
    unsigned count;
    uint64_t icount;
};

/**
 * struct fingerprint_difference - where two traces differ first
 * @vcpu:  of the stream
 * @index: of the record
 * @a, @b: the paths from there on
 * @ended: both are the same as far as both go
 */
struct fingerprint_difference {
    uint32_t vcpu;
    uint64_t index;
    struct fingerprint_path a, b;
    bool ended;
};

/*
 * Do all fingerprints of a stream that both have agree?  If not, @records gets
 * the first one that does not.
 */
bool fingerprint_agree(const GArray *a, const GArray *b, uint32_t vcpu,
                       uint64_t *records);

/*
 * The first record of a stream that is not the same in both, from record @from
 * on.  False if there is none, and both have the same number.  A trace without
 * the stream has none of its records.
 */
bool fingerprint_compare(const struct btrail_trace *a,
                         const struct btrail_trace *b, uint32_t vcpu,
                         uint64_t from, struct fingerprint_difference *d,
                         GError **error);

#endif /* BTRAIL_FINGERPRINT_H */
