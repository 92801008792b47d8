/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The streams of a session: records and code of the capture, filtered, with the
 * session's own numbers
 *
 * Records have the capture's numbers if the session is whole.  Otherwise they
 * are numbered from a start on: moved, if all of them are wanted, or one after
 * the other, if some are left out.
 */

#ifndef BTRAIL_SESSION_STREAM_H
#define BTRAIL_SESSION_STREAM_H

#include "drain/output.h"
#include "drain/session-code.h"
#include "drain/session-filter.h"

/**
 * struct session_streams
 * @whole:     records keep the capture's numbers
 * @anywhere:  a stream may begin at any index; the file says why
 * @drop:      lose records when the output lags behind
 * @resume:    where streams continue, see struct session_settings
 * @observer:  sees what is kept, or NULL
 * @records, @filtered, @lost: see struct session_progress; atomic each
 * @unexplained: records missing without a GAP event of the producer
 *
 * The rest is session-stream.c's own.
 */
struct session_streams {
    bool whole;
    bool anywhere;
    bool drop;
    const uint64_t *resume;
    unsigned n_resume;
    const struct btrail_stream_observer *observer;
    struct output *output;
    struct filtering *filtering;
    struct session_code *code;
    uint64_t records, filtered, lost;
    uint64_t unexplained;

    unsigned n;
    struct session_vcpu *vcpus;
    GArray *events;             /* of struct btrail_event: moved */
    GArray *marks;              /* of struct filter_mark */
};

/* @indices: of the next record of each vCPU in the capture, @n of them */
void session_streams_init(struct session_streams *s, unsigned n,
                          const uint64_t *indices);
void session_streams_clear(struct session_streams *s);

/*
 * As the functions of session-feed.h; besides, each returns a negative enum
 * btrail_error if the output has failed.
 */
int session_streams_slab(struct session_streams *s, unsigned vcpu,
                         const struct btrail_checked_slab *slab,
                         uint64_t index, uint16_t gap_reason);
void session_streams_code(struct session_streams *s, unsigned vcpu,
                          uint64_t number, const struct btrail_code_item *item,
                          const uint8_t *page);
bool session_streams_ended(const struct session_streams *s, unsigned vcpu);
int session_streams_end(struct session_streams *s, unsigned vcpu,
                        uint64_t index, uint16_t gap, uint16_t reason);

/* Hands all blocks to the output. */
int session_streams_flush(struct session_streams *s);

/* Hands on code that waits for records, as no more records come. */
void session_streams_end_code(struct session_streams *s);

#endif /* BTRAIL_SESSION_STREAM_H */
