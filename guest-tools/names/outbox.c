/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages to the agent: see outbox.h
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outbox.h"

/* The port of Linux takes no more at once. */
#define WRITE_MAX   (32u << 10)

bool outbox_init(struct outbox *o)
{
    memset(o, 0, sizeof(*o));
    o->data = malloc(OUTBOX_SIZE);
    return o->data;
}

void outbox_free(struct outbox *o)
{
    free(o->data);
}

void outbox_clear(struct outbox *o)
{
    unsigned char *data = o->data;

    memset(o, 0, sizeof(*o));
    o->data = data;
}

static void append(struct outbox *o, const void *data, size_t size)
{
    size_t at = (o->first + o->used) % OUTBOX_SIZE;
    size_t n = OUTBOX_SIZE - at < size ? OUTBOX_SIZE - at : size;

    if (size) {
        memcpy(o->data + at, data, n);
        memcpy(o->data, (const char *)data + n, size - n);
        o->used += size;
    }
}

bool outbox_put(struct outbox *o, uint16_t type, const void *fixed, size_t size,
                struct outbox_text first, struct outbox_text second,
                size_t keep)
{
    size_t all = size + first.size + second.size;
    struct btrail_guest_header header = {
        .size = (uint32_t)all, .type = type,
    };

    if (all > BTRAIL_GUEST_MESSAGE_MAX ||
        sizeof(header) + all + keep > outbox_room(o)) {
        return false;
    }
    append(o, &header, sizeof(header));
    append(o, fixed, size);
    append(o, first.data, first.size);
    append(o, second.data, second.size);
    return true;
}

void outbox_lost(struct outbox *o, enum btrail_guest_lost_what what,
                 uint64_t n)
{
    o->lost[what] += n;
}

void outbox_report_lost(struct outbox *o, uint64_t time)
{
    for (unsigned i = 0; i <= BTRAIL_GUEST_LOST_LIST; i++) {
        struct btrail_guest_lost lost = {
            .time = time, .n = o->lost[i], .what = i,
        };

        if (lost.n && outbox_put(o, BTRAIL_GUEST_LOST, &lost, sizeof(lost),
                                 (struct outbox_text) { 0 },
                                 (struct outbox_text) { 0 }, 0)) {
            o->lost[i] = 0;
        }
    }
}

bool outbox_write(struct outbox *o, int fd)
{
    while (o->used) {
        size_t n = OUTBOX_SIZE - o->first < o->used ? OUTBOX_SIZE - o->first :
                   o->used;
        ssize_t written = write(fd, o->data + o->first,
                                n < WRITE_MAX ? n : WRITE_MAX);

        if (written < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        o->first = (o->first + (size_t)written) % OUTBOX_SIZE;
        o->used -= (size_t)written;
    }
    return true;
}
