/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU's log of a recording: see replay-log.h
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "replay/replay-log.h"
#include "util/json.h"
#include "util/search.h"

/* False if it is not one that the guest gets from outside. */
static bool kind_of(unsigned type, enum replay_log_kind *kind)
{
    switch (type) {
    case LOG_INTERRUPT:
        *kind = REPLAY_LOG_INTERRUPT;
        return true;
    case LOG_EXCEPTION:
        *kind = REPLAY_LOG_EXCEPTION;
        return true;
    case LOG_ASYNC_BH:
    case LOG_ASYNC_BH_ONESHOT:
        *kind = REPLAY_LOG_TIMER;
        return true;
    case LOG_ASYNC_INPUT:
        *kind = REPLAY_LOG_INPUT;
        return true;
    case LOG_ASYNC_CHAR_READ:
    case LOG_CHAR_READ_ALL:
        *kind = REPLAY_LOG_CHARACTER;
        return true;
    case LOG_ASYNC_BLOCK:
        *kind = REPLAY_LOG_DISK;
        return true;
    case LOG_ASYNC_NET:
        *kind = REPLAY_LOG_NETWORK;
        return true;
    case LOG_AUDIO_IN:
        *kind = REPLAY_LOG_AUDIO;
        return true;
    case LOG_RANDOM:
        *kind = REPLAY_LOG_RANDOM;
        return true;
    case LOG_CLOCK_HOST:
    case LOG_CLOCK_VIRTUAL_RT:
        *kind = REPLAY_LOG_CLOCK;
        return true;
    case LOG_SHUTDOWN ... LOG_SHUTDOWN_LAST:
        *kind = REPLAY_LOG_SHUTDOWN;
        return true;
    default:
        return false;
    }
}

static void read_events(struct log_reader *r, uint64_t at, uint64_t icount,
                        struct replay_log_place *place)
{
    struct log_event event;

    for (uint64_t order = 0; log_reader_next(r, &event); order++) {
        struct replay_log_event e = {
            .there = true, .icount = at, .order = order,
            .device = event.number, .bytes = event.bytes,
        };

        if (event.type == LOG_INSTRUCTION) {
            at += event.number;
        }
        if (!kind_of(event.type, &e.kind)) {
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

bool replay_log_find(const char *path, const struct log_start *start,
                     uint64_t icount, struct replay_log_place *place,
                     GError **error)
{
    FILE *file = fopen(path, "re");
    struct log_reader r;

    memset(place, 0, sizeof(*place));
    if (!file) {
        return agent_error_errno(error, path);
    }
    log_reader_begin(&r, file, start);
    read_events(&r, start->icount, icount, place);
    fclose(file);
    return !r.bad ||
           agent_fail(error, AGENT_ERROR_PROTOCOL, "%s is "
                      "damaged, or of another QEMU", path);
}

static gint by_order(gconstpointer a, gconstpointer b)
{
    const struct replay_log_event *const *x = a, *const *y = b;

    return BTRAIL_COMPARE((*x)->order, (*y)->order);
}

GPtrArray *replay_log_before(const struct replay_log_place *place,
                             unsigned most)
{
    GPtrArray *list = g_ptr_array_new();

    for (unsigned i = 0; i < REPLAY_LOG_KINDS; i++) {
        if (place->before[i].there) {
            g_ptr_array_add(list, (gpointer)&place->before[i]);
        }
    }
    g_ptr_array_sort(list, by_order);
    if (list->len > most) {
        g_ptr_array_remove_range(list, 0, list->len - most);
    }
    return list;
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
