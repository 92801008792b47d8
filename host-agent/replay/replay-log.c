/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's log of a recording: see replay-log.h
 *
 * Its format is that of QEMU's replay/replay-internal.h, with version 0xe0200d:
 * numbers are big-endian, and each event is a byte and what belongs to it.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "replay/replay-log.h"
#include "util/json.h"

#define VERSION         0xe0200d
#define HEADER_REST     8       /* offset of nothing */

enum event {
    EVENT_INSTRUCTION,
    EVENT_INTERRUPT,
    EVENT_EXCEPTION,
    EVENT_ASYNC_BH,
    EVENT_ASYNC_BH_ONESHOT,
    EVENT_ASYNC_INPUT,
    EVENT_ASYNC_INPUT_SYNC,
    EVENT_ASYNC_CHAR_READ,
    EVENT_ASYNC_BLOCK,
    EVENT_ASYNC_NET,
    EVENT_SHUTDOWN,
    EVENT_SHUTDOWN_LAST = EVENT_SHUTDOWN + 11,
    EVENT_CHAR_WRITE,
    EVENT_CHAR_READ_ALL,
    EVENT_CHAR_READ_ALL_ERROR,
    EVENT_AUDIO_OUT,
    EVENT_AUDIO_IN,
    EVENT_RANDOM,
    EVENT_CLOCK_HOST,
    EVENT_CLOCK_VIRTUAL_RT,
    EVENT_CHECKPOINT,
    EVENT_CHECKPOINT_LAST = EVENT_CHECKPOINT + 8,
    EVENT_CPU,
    EVENT_END,
};

/* Of struct InputEvent, and of a key */
enum { INPUT_KEY, INPUT_BUTTON, INPUT_REL, INPUT_ABS, INPUT_TOUCH };
enum { KEY_NUMBER, KEY_CODE };

/**
 * struct reader
 * @ended: before all that was to be read
 * @bad:   what was read cannot be
 */
struct reader {
    FILE *file;
    bool ended;
    bool bad;
};

static uint64_t get(struct reader *r, unsigned bytes)
{
    uint64_t n = 0;

    while (bytes--) {
        int c = getc_unlocked(r->file);

        r->ended |= c == EOF;
        n = n << 8 | (c & 0xff);
    }
    return r->ended ? 0 : n;
}

static void skip(struct reader *r, uint64_t bytes)
{
    /* A seek would end anywhere. */
    while (bytes-- && !r->ended) {
        get(r, 1);
    }
}

static uint64_t skip_array(struct reader *r)
{
    uint64_t size = get(r, 4);

    skip(r, size);
    return size;
}

static void skip_input(struct reader *r)
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

/* Reads what belongs to an event.  False if it is not one that the guest gets
 * from outside. */
static bool read_event(struct reader *r, unsigned event,
                       struct replay_log_event *e)
{
    switch (event) {
    case EVENT_INTERRUPT:
        e->kind = REPLAY_LOG_INTERRUPT;
        return true;
    case EVENT_EXCEPTION:
        e->kind = REPLAY_LOG_EXCEPTION;
        return true;
    case EVENT_ASYNC_BH:
    case EVENT_ASYNC_BH_ONESHOT:
        skip(r, 8);
        e->kind = REPLAY_LOG_TIMER;
        return true;
    case EVENT_ASYNC_INPUT:
        skip_input(r);
        e->kind = REPLAY_LOG_INPUT;
        return true;
    case EVENT_ASYNC_CHAR_READ:
        e->device = get(r, 1);
        e->bytes = skip_array(r);
        e->kind = REPLAY_LOG_CHARACTER;
        return true;
    case EVENT_CHAR_READ_ALL:
        e->bytes = skip_array(r);
        e->kind = REPLAY_LOG_CHARACTER;
        return true;
    case EVENT_ASYNC_BLOCK:
        e->device = get(r, 8);
        e->kind = REPLAY_LOG_DISK;
        return true;
    case EVENT_ASYNC_NET:
        e->device = get(r, 1);
        skip(r, 4);
        e->bytes = skip_array(r);
        e->kind = REPLAY_LOG_NETWORK;
        return true;
    case EVENT_AUDIO_IN:
        e->bytes = get(r, 8);
        skip(r, 8);
        /* Two numbers for each sample */
        for (uint64_t i = 0; i < e->bytes && !r->ended; i++) {
            skip(r, 16);
        }
        e->kind = REPLAY_LOG_AUDIO;
        return true;
    case EVENT_RANDOM:
        skip(r, 4);
        e->bytes = skip_array(r);
        e->kind = REPLAY_LOG_RANDOM;
        return true;
    case EVENT_CLOCK_HOST:
    case EVENT_CLOCK_VIRTUAL_RT:
        skip(r, 8);
        e->kind = REPLAY_LOG_CLOCK;
        return true;
    case EVENT_SHUTDOWN ... EVENT_SHUTDOWN_LAST:
        e->kind = REPLAY_LOG_SHUTDOWN;
        return true;
    case EVENT_CHAR_WRITE:
    case EVENT_AUDIO_OUT:
        skip(r, 8);
        return false;
    case EVENT_CHAR_READ_ALL_ERROR:
    case EVENT_CPU:
        skip(r, 4);
        return false;
    case EVENT_ASYNC_INPUT_SYNC:
    case EVENT_CHECKPOINT ... EVENT_CHECKPOINT_LAST:
        return false;
    default:
        r->bad = true;
        return false;
    }
}

static void read_events(struct reader *r, uint64_t icount,
                        struct replay_log_place *place)
{
    uint64_t at = 0;

    for (;;) {
        unsigned event = get(r, 1);
        struct replay_log_event e = { .there = true };

        if (r->ended || event == EVENT_END) {
            return;
        }
        if (event == EVENT_INSTRUCTION) {
            at += get(r, 4);
            continue;
        }
        e.icount = at;
        if (!read_event(r, event, &e) || r->ended || r->bad) {
            if (r->ended || r->bad) {
                return;
            }
            continue;
        }
        if (at > icount) {
            place->next = e;
            return;
        }
        place->before[e.kind] = e;
        place->interrupt |= at == icount && e.kind <= REPLAY_LOG_EXCEPTION;
    }
}

bool replay_log_find(const char *path, uint64_t icount,
                     struct replay_log_place *place, GError **error)
{
    struct reader r = { .file = fopen(path, "re") };

    memset(place, 0, sizeof(*place));
    if (!r.file) {
        btrail_agent_error_errno(error, path);
        return false;
    }
    r.bad = get(&r, 4) != VERSION;
    skip(&r, HEADER_REST);
    if (!r.bad) {
        read_events(&r, icount, place);
    }
    fclose(r.file);
    return !r.bad ||
           btrail_agent_fail(error, BTRAIL_AGENT_ERROR_PROTOCOL, "%s is "
                             "damaged, or of another QEMU", path);
}

static const struct {
    const char *name;
    const char *text;
} kinds[] = {
    [REPLAY_LOG_INTERRUPT] = { "interrupt", "an interrupt" },
    [REPLAY_LOG_EXCEPTION] = { "exception", "an exception" },
    [REPLAY_LOG_TIMER] = { "timer", "a timer of a device" },
    [REPLAY_LOG_INPUT] = { "input", "a key or a move of the mouse" },
    [REPLAY_LOG_CHARACTER] = { "character", "character device" },
    [REPLAY_LOG_DISK] = { "disk", "end of disk request" },
    [REPLAY_LOG_NETWORK] = { "network", "network" },
    [REPLAY_LOG_AUDIO] = { "audio", "sound" },
    [REPLAY_LOG_RANDOM] = { "random", "random numbers" },
    [REPLAY_LOG_CLOCK] = { "clock", "the host's clock" },
    [REPLAY_LOG_SHUTDOWN] = { "shutdown", "a request to switch off" },
};

G_STATIC_ASSERT(G_N_ELEMENTS(kinds) == REPLAY_LOG_KINDS);

char *replay_log_describe(const struct replay_log_event *e)
{
    const char *text = kinds[e->kind].text;

    switch (e->kind) {
    case REPLAY_LOG_CHARACTER:
    case REPLAY_LOG_NETWORK:
        return g_strdup_printf("%" PRIu64 " bytes of %s %" PRIu64, e->bytes,
                               text, e->device);
    case REPLAY_LOG_DISK:
        return g_strdup_printf("%s %" PRIu64, text, e->device);
    default:
        return g_strdup(text);
    }
}

JsonObject *replay_log_json(const struct replay_log_event *e)
{
    return btrail_json_new("s:kind", kinds[e->kind].name, "U:icount",
                           e->icount, "U:device", e->device, "U:bytes",
                           e->bytes, NULL);
}
