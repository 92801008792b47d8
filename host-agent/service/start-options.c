/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of a drain session, from a command "start": see start-options.h
 */

#include <string.h>

#include "service/start-options.h"

static void add_trigger(struct btrail_start_options *o,
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

    g_array_append_val(o->triggers, trigger);
}

static void set_filter(struct btrail_start_options *o,
                       const struct btrail_command *c)
{
    struct btrail_session_filter *f = &o->options.filter;
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

        g_ptr_array_add(o->processes, p->comm ? g_strdup(p->comm) :
                        g_strdup_printf("%d", p->pid));
    }
    g_ptr_array_add(o->processes, NULL);
    if (c->processes) {
        f->processes = (const char *const *)o->processes->pdata;
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

void btrail_start_options_init(struct btrail_start_options *o,
                               const struct btrail_command *c, uint64_t ring)
{
    unsigned i;

    memset(o, 0, sizeof(*o));
    o->processes = g_ptr_array_new_with_free_func(g_free);
    set_filter(o, c);
    o->options.drop = c->overflow != BTRAIL_OVERFLOW_PAUSE;
    o->triggers = g_array_new(FALSE, FALSE, sizeof(struct btrail_trigger));
    for (i = 0; c->triggers && i < c->triggers->len; i++) {
        add_trigger(o, &g_array_index(c->triggers,
                                      struct btrail_command_trigger, i));
    }
    o->options.triggers = (struct btrail_trigger *)o->triggers->data;
    o->options.n_triggers = o->triggers->len;
    if (c->last) {
        o->options.mode = BTRAIL_SESSION_LAST;
        set_limit(&o->options.limit, c, ring);
    }
}

void btrail_start_options_clear(struct btrail_start_options *o)
{
    g_ptr_array_unref(o->processes);
    g_array_unref(o->triggers);
}
