/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The events of QEMU's log of a recording, in their order
 *
 * Their format is that of QEMU's replay/replay-internal.h, with version
 * 0xe0200e: an event is a byte and what belongs to it, and all numbers are
 * big-endian.
 */

#ifndef BTRAIL_REPLAY_LOG_READER_H
#define BTRAIL_REPLAY_LOG_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum log_event_type {
    LOG_INSTRUCTION,
    LOG_INTERRUPT,
    LOG_EXCEPTION,
    LOG_ASYNC_BH,
    LOG_ASYNC_BH_ONESHOT,
    LOG_ASYNC_INPUT,
    LOG_ASYNC_INPUT_SYNC,
    LOG_ASYNC_CHAR_READ,
    LOG_ASYNC_BLOCK,
    LOG_ASYNC_NET,
    LOG_SHUTDOWN,               /* one for each cause */
    LOG_SHUTDOWN_LAST = LOG_SHUTDOWN + 11,
    LOG_CHAR_WRITE,
    LOG_CHAR_READ_ALL,
    LOG_CHAR_READ_ALL_ERROR,
    LOG_AUDIO_OUT,
    LOG_AUDIO_IN,
    LOG_RANDOM,
    LOG_CLOCK_HOST,
    LOG_CLOCK_VIRTUAL_RT,
    LOG_CHECKPOINT,
    LOG_CHECKPOINT_LAST = LOG_CHECKPOINT + 8,
    LOG_CPU,
    LOG_END,
};

/**
 * struct log_event
 * @type:   enum log_event_type
 * @number: how many instructions, which vCPU, which device of its kind or
 *          which request; 0 if there is no such thing
 * @bytes:  that came with it, or that were written to a character device; or 0
 */
struct log_event {
    unsigned type;
    uint64_t number;
    uint64_t bytes;
};

/**
 * struct log_start - where a replay begins in its log
 * @offset: of the first event; 0 if that is the first one of all
 * @icount: instructions executed before it
 * @vcpu:   the one that executes what comes, until the log says otherwise
 */
struct log_start {
    uint64_t offset;
    uint64_t icount;
    unsigned vcpu;
};

/**
 * struct log_reader
 * @ended: the file ends within an event, or without LOG_END
 * @bad:   what was read cannot be, or is of another QEMU
 */
struct log_reader {
    FILE *file;
    bool ended;
    bool bad;
};

/* Starts to read at @start; @file stays the caller's. */
void log_reader_begin(struct log_reader *r, FILE *file,
                      const struct log_start *start);

/* The next event; false at the end, and where @ended or @bad is set */
bool log_reader_next(struct log_reader *r, struct log_event *e);

#endif /* BTRAIL_REPLAY_LOG_READER_H */
