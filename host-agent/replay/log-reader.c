/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The events of QEMU's log: see log-reader.h
 */

#include "replay/log-reader.h"

#define VERSION         0xe0200e
#define HEADER_REST     8       /* offset of nothing */

/* Of struct InputEvent, and of a key */
enum { INPUT_KEY, INPUT_BUTTON, INPUT_REL, INPUT_ABS, INPUT_TOUCH };
enum { KEY_NUMBER, KEY_CODE };

static uint64_t get(struct log_reader *r, unsigned bytes)
{
    uint64_t n = 0;

    while (bytes--) {
        int c = getc_unlocked(r->file);

        r->ended |= c == EOF;
        n = n << 8 | (c & 0xff);
    }
    return r->ended ? 0 : n;
}

static void skip(struct log_reader *r, uint64_t bytes)
{
    /* A seek would end anywhere. */
    while (bytes-- && !r->ended) {
        get(r, 1);
    }
}

static uint64_t skip_array(struct log_reader *r)
{
    uint64_t size = get(r, 4);

    skip(r, size);
    return size;
}

static void skip_input(struct log_reader *r)
{
    switch (get(r, 4)) {
    case INPUT_KEY:
        switch (get(r, 4)) {
        case KEY_NUMBER:
            skip(r, 8 + 1);
            break;
        case KEY_CODE:
            skip(r, 4 + 1);
            break;
        default:
            r->bad = true;
        }
        break;
    case INPUT_BUTTON:
        skip(r, 4 + 1);
        break;
    case INPUT_REL:
    case INPUT_ABS:
        skip(r, 4 + 8);
        break;
    case INPUT_TOUCH:
        skip(r, 4 + 8 + 8 + 4 + 8);
        break;
    default:
        r->bad = true;
    }
}

/* Two numbers for each sample */
static void skip_samples(struct log_reader *r, uint64_t samples)
{
    skip(r, 8);
    for (uint64_t i = 0; i < samples && !r->ended; i++) {
        skip(r, 16);
    }
}

/* Reads what belongs to an event. */
static void read_event(struct log_reader *r, struct log_event *e)
{
    switch (e->type) {
    case LOG_INTERRUPT:
    case LOG_EXCEPTION:
    case LOG_ASYNC_INPUT_SYNC:
    case LOG_SHUTDOWN ... LOG_SHUTDOWN_LAST:
    case LOG_CHECKPOINT ... LOG_CHECKPOINT_LAST:
        break;
    case LOG_INSTRUCTION:
    case LOG_CPU:
        e->number = get(r, 4);
        break;
    case LOG_ASYNC_BLOCK:
        e->number = get(r, 8);
        break;
    case LOG_CHAR_READ_ALL_ERROR:
        skip(r, 4);
        break;
    case LOG_ASYNC_BH:
    case LOG_ASYNC_BH_ONESHOT:
    case LOG_AUDIO_OUT:
    case LOG_CLOCK_HOST:
    case LOG_CLOCK_VIRTUAL_RT:
        skip(r, 8);
        break;
    case LOG_CHAR_WRITE:
        skip(r, 4);
        e->bytes = get(r, 4);
        break;
    case LOG_ASYNC_INPUT:
        skip_input(r);
        break;
    case LOG_ASYNC_CHAR_READ:
        e->number = get(r, 1);
        e->bytes = skip_array(r);
        break;
    case LOG_ASYNC_NET:
        e->number = get(r, 1);
        skip(r, 4);
        e->bytes = skip_array(r);
        break;
    case LOG_CHAR_READ_ALL:
        e->bytes = skip_array(r);
        break;
    case LOG_RANDOM:
        skip(r, 4);
        e->bytes = skip_array(r);
        break;
    case LOG_AUDIO_IN:
        e->bytes = get(r, 8);
        skip_samples(r, e->bytes);
        break;
    default:
        r->bad = true;
    }
}

void log_reader_begin(struct log_reader *r, FILE *file,
                      const struct log_start *start)
{
    *r = (struct log_reader) { .file = file };
    r->bad = get(r, 4) != VERSION;
    skip(r, HEADER_REST);
    if (start->offset) {
        r->ended |= start->offset > INT64_MAX ||
                    fseeko(file, start->offset, SEEK_SET);
    }
}

bool log_reader_next(struct log_reader *r, struct log_event *e)
{
    if (r->ended || r->bad) {
        return false;
    }
    *e = (struct log_event) { .type = get(r, 1) };
    if (r->ended || e->type == LOG_END) {
        return false;
    }
    read_event(r, e);
    return !r->ended && !r->bad;
}
