/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of the kernel and its modules: see symbols.h
 */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols.h"
#include "tsc.h"

/* The kernel takes some time for each symbol. */
#define PIECE   (8u << 10)

void symbols_init(struct symbols *s)
{
    memset(s, 0, sizeof(*s));
    s->fd = -1;
}

void symbols_begin(struct symbols *s)
{
    symbols_end(s);
    s->text = malloc(PIECE);
    s->fd = s->text ? open("/proc/kallsyms", O_RDONLY | O_CLOEXEC) : -1;
}

/*
 * The table has nothing but zeros for addresses if this program may not know
 * them.  Some symbols, of data of each CPU, are at 0.
 */
static bool hidden(const struct symbols *s)
{
    static const char none[] = "0000000000000000";
    const char *line = s->text;

    while (line && s->size - (size_t)(line - s->text) >= sizeof(none)) {
        if (memcmp(line, none, sizeof(none) - 1)) {
            return false;
        }
        line = memchr(line, '\n', s->size - (size_t)(line - s->text));
        line += !!line;
    }
    return true;
}

/* Reads until there is a piece, or the end. */
static bool fill(struct symbols *s)
{
    ssize_t n = 1;

    while (s->size < PIECE && n > 0) {
        n = read(s->fd, s->text + s->size, PIECE - s->size);
        s->size += n > 0 ? (size_t)n : 0;
    }
    return n > 0;
}

void symbols_step(struct symbols *s, struct outbox *out, uint64_t until)
{
    while (s->fd >= 0 && outbox_room(out) > OUTBOX_KEEP_LIST + 2 * PIECE &&
           tsc_clock_ns() < until) {
        bool more = fill(s);
        const char *last = memrchr(s->text, '\n', s->size);
        size_t size = last ? (size_t)(last - s->text) + 1 : 0;
        struct btrail_guest_symbols m = {
            .flags = (s->begun ? 0 : BTRAIL_GUEST_SYMBOLS_BEGIN) |
                     (more ? 0 : BTRAIL_GUEST_SYMBOLS_END),
            .size = (uint32_t)size,
        };

        if ((!s->begun && hidden(s)) || (more && !size)) {
            symbols_end(s);
            return;
        }
        outbox_put(out, BTRAIL_GUEST_SYMBOLS, &m, sizeof(m),
                   (struct outbox_text) { s->text, m.size },
                   (struct outbox_text) { 0 }, 0);
        s->begun = true;
        s->size -= size;
        memmove(s->text, s->text + size, s->size);
        if (!more) {
            symbols_end(s);
        }
    }
}

void symbols_end(struct symbols *s)
{
    if (s->fd >= 0) {
        close(s->fd);
    }
    free(s->text);
    symbols_init(s);
}
