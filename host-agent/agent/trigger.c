/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triggers: see trigger.h
 */

#include <string.h>

#include "trigger.h"

/* A bit for each address that something may act at, and for others */
#define BITS    4096

struct watched {
    struct btrail_trigger trigger;
    struct btrail_filtering *process;   /* NULL for any */
    uint64_t address;           /* atomic; 0 if it is not known */
    uint64_t hits;
};

struct btrail_triggers {
    struct watched *watched;
    unsigned n;
    uint64_t bits[BITS / 64];   /* atomic each */
    bool keeping;
    bool can_start;
    btrail_fired_fn *fired;
    void *opaque;
};

static unsigned bit_of(uint64_t address)
{
    return address * UINT64_C(0x9E3779B97F4A7C15) >> 52;
}

static void set_address(struct btrail_triggers *t, struct watched *w,
                        uint64_t address)
{
    unsigned bit = bit_of(address);

    __atomic_store_n(&w->address, address, __ATOMIC_RELAXED);
    __atomic_fetch_or(&t->bits[bit / 64], UINT64_C(1) << bit % 64,
                      __ATOMIC_RELEASE);
}

struct btrail_triggers *
btrail_triggers_new(const struct btrail_trigger *triggers, unsigned n,
                    btrail_fired_fn *fired, void *opaque)
{
    struct btrail_triggers *t = g_new0(struct btrail_triggers, 1);
    unsigned i;

    t->watched = g_new0(struct watched, n);
    t->n = n;
    t->fired = fired;
    t->opaque = opaque;
    for (i = 0; i < n; i++) {
        const char *names[] = { triggers[i].process, NULL };
        const struct btrail_session_filter process = { .processes = names };
        struct watched *w = &t->watched[i];

        w->trigger = triggers[i];
        w->trigger.symbol = g_strdup(triggers[i].symbol);
        w->process = triggers[i].process ?
                     btrail_filtering_new(&process, NULL, NULL) : NULL;
        if (!triggers[i].symbol) {
            set_address(t, w, triggers[i].address);
        }
        t->can_start |= triggers[i].action == BTRAIL_TRIGGER_START;
    }
    t->keeping = !t->can_start;
    return t;
}

void btrail_triggers_free(struct btrail_triggers *t)
{
    unsigned i;

    for (i = 0; i < t->n; i++) {
        g_free((char *)t->watched[i].trigger.symbol);
        if (t->watched[i].process) {
            btrail_filtering_free(t->watched[i].process);
        }
    }
    g_free(t->watched);
    g_free(t);
}

void btrail_triggers_look(struct btrail_triggers *t,
                          const struct btrail_look *look)
{
    unsigned i;

    for (i = 0; i < t->n; i++) {
        if (t->watched[i].process) {
            btrail_filtering_look(t->watched[i].process, look);
        }
    }
}

/* The line is ADDRESS TYPE NAME, and with a module there is more. */
static bool is_symbol(const char *line, size_t size, const char *name)
{
    const char *p = memchr(line, ' ', size);
    size_t n = strlen(name);

    return p && (size_t)(line + size - p) >= 3 + n && p[2] == ' ' &&
           !memcmp(p + 3, name, n) &&
           (p + 3 + n == line + size || p[3 + n] == '\t' || p[3 + n] == ' ');
}

void btrail_triggers_symbols(struct btrail_triggers *t, const char *text,
                             size_t size)
{
    const char *line = text, *end = text + size;

    while (line < end) {
        const char *next = memchr(line, '\n', end - line) ?: end;
        unsigned i;

        for (i = 0; i < t->n; i++) {
            struct watched *w = &t->watched[i];

            if (w->trigger.symbol &&
                is_symbol(line, next - line, w->trigger.symbol)) {
                char digits[17];

                g_strlcpy(digits, line, MIN((size_t)(next - line) + 1,
                                            sizeof(digits)));
                set_address(t, w, g_ascii_strtoull(digits, NULL, 16));
            }
        }
        line = next + 1;
    }
}

static void act(struct btrail_triggers *t, unsigned i)
{
    struct watched *w = &t->watched[i];

    if (++w->hits < w->trigger.hits) {
        return;
    }
    w->hits = 0;
    switch (w->trigger.action) {
    case BTRAIL_TRIGGER_START:
        t->keeping = true;
        break;
    case BTRAIL_TRIGGER_STOP:
        t->keeping = false;
        break;
    default:
        break;
    }
    t->fired(t->opaque, i);
}

bool btrail_triggers_pass(void *opaque, uint64_t cr3, uint64_t to)
{
    struct btrail_triggers *t = opaque;
    unsigned bit = bit_of(to);
    bool kept = t->keeping;
    unsigned i;

    if (!(__atomic_load_n(&t->bits[bit / 64], __ATOMIC_RELAXED) >> bit % 64 &
          1)) {
        return kept;
    }
    for (i = 0; i < t->n; i++) {
        struct watched *w = &t->watched[i];

        if (to && __atomic_load_n(&w->address, __ATOMIC_RELAXED) == to &&
            (!w->process || btrail_filtering_cr3(w->process, cr3))) {
            act(t, i);
        }
    }
    return kept || t->keeping;
}

bool btrail_triggers_over(const struct btrail_triggers *t)
{
    return !t->keeping && !t->can_start;
}
