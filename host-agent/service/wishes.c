/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the agent takes of a command to start: see wishes.h
 */

#include <string.h>

#include "service/wishes.h"

static void add_trigger(struct btrail_wishes *w,
                        const struct btrail_command_trigger *t)
{
    static const unsigned actions[] = {
        [BTRAIL_COMMAND_ACT_START] = BTRAIL_TRIGGER_START,
        [BTRAIL_COMMAND_ACT_STOP] = BTRAIL_TRIGGER_STOP,
        [BTRAIL_COMMAND_ACT_DUMP] = BTRAIL_TRIGGER_DUMP,
    };
    const struct btrail_trigger trigger = {
        .process = t->process,
        .symbol = t->symbol,
        .user = t->user,
        .address = t->address,
        .action = actions[t->act],
        .hits = t->hits,
    };

    g_array_append_val(w->triggers, trigger);
}

static void set_filter(struct btrail_wishes *w, const struct btrail_command *c)
{
    struct btrail_session_filter *f = &w->options.filter;
    unsigned i;

    if (c->vcpus) {
        f->vcpus = (uint32_t *)c->vcpus->data;
        f->n_vcpus = c->vcpus->len;
    }
    if (c->cr3) {
        f->cr3s = (uint64_t *)c->cr3->data;
        f->n_cr3s = c->cr3->len;
    }
    if (c->privilege != (BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL)) {
        f->privilege = c->privilege;
    }
    for (i = 0; c->processes && i < c->processes->len; i++) {
        const struct btrail_command_process *p =
            &g_array_index(c->processes, struct btrail_command_process, i);

        g_ptr_array_add(w->processes, p->comm ? g_strdup(p->comm) :
                        g_strdup_printf("%d", p->pid));
    }
    g_ptr_array_add(w->processes, NULL);
    if (c->processes) {
        f->processes = (const char *const *)w->processes->pdata;
    }
}

static void set_limit(struct btrail_session_limit *limit,
                      const struct btrail_command *c, uint64_t ring)
{
    limit->bytes = ring;
    switch (c->size_of) {
    case BTRAIL_COMMAND_BYTES:
        limit->bytes = c->size;
        break;
    case BTRAIL_COMMAND_RECORDS:
        limit->records = c->size;
        break;
    case BTRAIL_COMMAND_SECONDS:
        limit->ns = c->size * 1000000000;
        break;
    }
}

void btrail_wishes_init(struct btrail_wishes *w,
                        const struct btrail_command *c, uint64_t ring)
{
    unsigned i;

    memset(w, 0, sizeof(*w));
    w->processes = g_ptr_array_new_with_free_func(g_free);
    set_filter(w, c);
    w->options.drop = c->overflow != BTRAIL_OVERFLOW_PAUSE;
    w->triggers = g_array_new(FALSE, FALSE, sizeof(struct btrail_trigger));
    for (i = 0; c->triggers && i < c->triggers->len; i++) {
        add_trigger(w, &g_array_index(c->triggers,
                                      struct btrail_command_trigger, i));
    }
    w->options.triggers = (struct btrail_trigger *)w->triggers->data;
    w->options.n_triggers = w->triggers->len;
    if (c->last) {
        w->options.mode = BTRAIL_SESSION_LAST;
        set_limit(&w->options.limit, c, ring);
    }
}

void btrail_wishes_clear(struct btrail_wishes *w)
{
    g_ptr_array_unref(w->processes);
    g_array_unref(w->triggers);
}
