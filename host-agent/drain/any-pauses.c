/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When any vCPU was paused: see any-pauses.h
 */

#include "drain/any-pauses.h"
#include "util/search.h"

/* A pause, or some that overlap; @before: the sum of those before it */
struct any_pause {
    uint64_t begin;
    uint64_t end;
    uint64_t before;
};

struct any_pauses {
    GArray *all;                /* of struct any_pause, in order */
};

struct any_pauses *any_pauses_new(void)
{
    struct any_pauses *pauses = g_new0(struct any_pauses, 1);

    pauses->all = g_array_new(FALSE, FALSE, sizeof(struct any_pause));
    return pauses;
}

void any_pauses_free(struct any_pauses *pauses)
{
    g_array_unref(pauses->all);
    g_free(pauses);
}

static struct any_pause *get(const struct any_pauses *pauses, size_t i)
{
    return &g_array_index(pauses->all, struct any_pause, i);
}

static uint64_t paused_before(const struct any_pauses *pauses, uint64_t time)
{
    const GArray *all = pauses->all;
    size_t i = !all->len ? 0 :
               BTRAIL_UP_TO(all->data, all->len, struct any_pause, begin,
                            time);
    const struct any_pause *p;

    if (!i) {
        return 0;
    }
    p = get(pauses, i - 1);
    return p->before + (MIN(time, p->end) - p->begin);
}

uint64_t any_pauses_in(const struct any_pauses *pauses, uint64_t begin,
                       uint64_t end)
{
    return begin < end ? paused_before(pauses, end) -
                         paused_before(pauses, begin) : 0;
}

void any_pauses_add(struct any_pauses *pauses,
                    const struct btrail_pause *pause)
{
    struct any_pause new = { pause->begin, pause->end };
    guint i = pauses->all->len;

    while (i && get(pauses, i - 1)->end >= new.begin) {
        const struct any_pause *p = get(pauses, --i);

        if (p->begin <= new.end) {
            new.begin = MIN(new.begin, p->begin);
            new.end = MAX(new.end, p->end);
            g_array_remove_index(pauses->all, i);
        }
    }
    g_array_insert_val(pauses->all, i, new);
    if (pauses->all->len > ANY_PAUSES_MAX) {
        /* More than was is better than less: no call seems too long. */
        get(pauses, 1)->begin = get(pauses, 0)->begin;
        g_array_remove_index(pauses->all, 0);
        i = 0;
    }
    for (; i < pauses->all->len; i++) {
        const struct any_pause *p = i ? get(pauses, i - 1) : NULL;

        get(pauses, i)->before = p ? p->before + (p->end - p->begin) : 0;
    }
}
