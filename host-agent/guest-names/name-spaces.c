/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see name-spaces.h
 */

#include <string.h>

#include "guest-names/name-spaces.h"
#include "util/search.h"

/* How many spaces of a process are looked at to find that of a time */
#define SPACES_BEFORE_MAX   256

struct name_spaces {
    struct btrail_budget *budget;
    GPtrArray *all;             /* of struct name_space, which it owns */
    GHashTable *last;           /* pid to its last struct name_space */
    uint64_t number;            /* of the last one */
    uint64_t list;              /* of the list that is being sent */
    uint64_t list_begin;        /* its time */
    bool listing;
};

/* A copy of something, if there is room for it, or else NULL */
static void *keep(struct name_spaces *s, const void *thing, size_t size)
{
    return btrail_budget_keep(s->budget, size) ? g_memdup2(thing, size) : NULL;
}

static void drop(struct name_spaces *s, void *thing, size_t size)
{
    btrail_budget_drop(s->budget, size);
    g_free(thing);
}

static size_t mapping_size(const struct name_mapping *m)
{
    return sizeof(*m) + strlen(m->path) + 1;
}

static size_t thread_size(const struct name_thread *t)
{
    return sizeof(*t) + strlen(t->comm) + 1;
}

static void drop_mapping(struct name_spaces *s, struct name_mapping *m)
{
    drop(s, m, mapping_size(m));
}

static void drop_mappings(struct name_spaces *s, struct name_mappings *m)
{
    if (m && !--m->refs) {
        for (guint i = 0; i < m->all->len; i++) {
            drop_mapping(s, g_ptr_array_index(m->all, i));
        }
        g_ptr_array_unref(m->all);
        drop(s, m, sizeof(*m));
    }
}

/*
 * Those of a space, for a change: no other space has them then.  NULL if there
 * is no room for any
 */
static GPtrArray *own_mappings(struct name_spaces *s, struct name_space *space)
{
    struct name_mappings *m = space->mappings, *own;
    const struct name_mappings new = { 1, NULL };

    if (m && m->refs == 1) {
        return m->all;
    }
    own = keep(s, &new, sizeof(new));
    if (!own) {
        return NULL;
    }
    own->all = g_ptr_array_new();
    /* For as many as there is room */
    for (guint i = 0; m && i < m->all->len; i++) {
        const struct name_mapping *one = g_ptr_array_index(m->all, i);
        struct name_mapping *copy = keep(s, one, mapping_size(one));

        if (!copy) {
            break;
        }
        g_ptr_array_add(own->all, copy);
    }
    drop_mappings(s, m);
    space->mappings = own;
    return own->all;
}

static void drop_threads(struct name_spaces *s, struct name_space *space)
{
    for (guint i = 0; i < space->threads->len; i++) {
        struct name_thread *t = g_ptr_array_index(space->threads, i);

        drop(s, t, thread_size(t));
    }
    g_ptr_array_set_size(space->threads, 0);
}

/* Sets what a space is called; false if there is no room for it. */
static bool set_texts(struct name_spaces *s, struct name_space *space,
                      const char *comm, const char *exe, const char *command,
                      uint32_t command_size)
{
    size_t comm_size = strlen(comm) + 1, exe_size = strlen(exe) + 1;
    size_t size = comm_size + exe_size + command_size + 1;
    char *texts;

    if (!btrail_budget_keep(s->budget, size)) {
        return false;
    }
    texts = g_malloc(size);
    memcpy(texts, comm, comm_size);
    memcpy(texts + comm_size, exe, exe_size);
    memcpy(texts + comm_size + exe_size, command, command_size);
    texts[size - 1] = 0;
    if (space->texts) {
        drop(s, space->texts, space->texts_size);
    }
    space->texts = texts;
    space->texts_size = (uint32_t)size;
    space->comm = texts;
    space->exe = texts + comm_size;
    space->command = texts + comm_size + exe_size;
    space->command_size = command_size;
    return true;
}

static void free_space(struct name_spaces *s, struct name_space *space)
{
    drop_mappings(s, space->mappings);
    name_functions_free(space->functions);
    drop_threads(s, space);
    g_ptr_array_unref(space->threads);
    if (space->texts) {
        drop(s, space->texts, space->texts_size);
    }
    drop(s, space, sizeof(*space));
}

struct name_spaces *name_spaces_new(struct btrail_budget *budget)
{
    struct name_spaces *s = g_new0(struct name_spaces, 1);

    s->budget = budget;
    s->all = g_ptr_array_new();
    s->last = g_hash_table_new(NULL, NULL);
    return s;
}

void name_spaces_free(struct name_spaces *s)
{
    for (guint i = 0; s && i < s->all->len; i++) {
        free_space(s, g_ptr_array_index(s->all, i));
    }
    if (s) {
        g_ptr_array_unref(s->all);
        g_hash_table_unref(s->last);
        g_free(s);
    }
}

const GPtrArray *name_spaces_all(const struct name_spaces *s)
{
    return s->all;
}

static struct name_space *last_of(const struct name_spaces *s, uint32_t pid)
{
    return g_hash_table_lookup(s->last, GUINT_TO_POINTER(pid));
}

struct name_space *name_spaces_find(struct name_spaces *s, uint32_t pid,
                                    uint64_t time)
{
    struct name_space *space = last_of(s, pid);

    for (unsigned i = 0; space && space->begin > time; i++) {
        space = i < SPACES_BEFORE_MAX ? space->before : NULL;
    }
    return space && time < space->end ? space : NULL;
}

static void end_space(struct name_space *space, uint64_t time)
{
    if (space && space->end == UINT64_MAX) {
        space->end = MAX(time, space->begin);
        space->changed = true;
    }
}

/* A process has a new space from a time on; NULL if there are too many. */
static struct name_space *begin_space(struct name_spaces *s, uint32_t pid,
                                      uint64_t time)
{
    const struct name_space new = {
        .begin = time, .end = UINT64_MAX, .pid = pid, .comm = "", .exe = "",
        .command = "", .changed = true,
    };
    struct name_space *before = last_of(s, pid), *space;

    if (before && before->begin > time) {
        /* The guest has already said something else of this time. */
        return NULL;
    }
    end_space(before, time);
    if (s->all->len == NAME_SPACES_MAX) {
        return NULL;
    }
    space = keep(s, &new, sizeof(new));
    if (!space) {
        return NULL;
    }
    space->before = before;
    space->number = ++s->number;
    space->threads = g_ptr_array_new();
    g_ptr_array_add(s->all, space);
    g_hash_table_insert(s->last, GUINT_TO_POINTER(pid), space);
    return space;
}

/* Where a thread is among those of a space, or would be */
static guint thread_place(const struct name_space *space, uint64_t tid,
                          struct name_thread **found)
{
    guint n = (guint)BTRAIL_PTRS_UP_TO(space->threads, struct name_thread, tid,
                                       tid);
    struct name_thread *t = n ? g_ptr_array_index(space->threads, n - 1) :
                            NULL;

    *found = t && t->tid == tid ? t : NULL;
    return *found ? n - 1 : n;
}

static void add_thread(struct name_spaces *s, struct name_space *space,
                       uint32_t tid, uint64_t start_time, const char *comm)
{
    const struct name_thread new = { start_time, tid };
    struct name_thread *known, *t;
    guint at = thread_place(space, tid, &known);
    size_t size = sizeof(new) + strlen(comm) + 1;

    if ((known && !strcmp(known->comm, comm)) ||
        (!known && space->threads->len == NAME_THREADS_EACH) ||
        !btrail_budget_keep(s->budget, size)) {
        return;
    }
    t = g_malloc(size);
    *t = new;
    memcpy(t->comm, comm, size - sizeof(new));
    if (known) {
        t->start_time = known->start_time;
        drop(s, known, thread_size(known));
        space->threads->pdata[at] = t;
    } else {
        g_ptr_array_insert(space->threads, (gint)at, t);
    }
    space->changed = true;
}

static void remove_thread(struct name_spaces *s, struct name_space *space,
                          uint32_t tid)
{
    struct name_thread *known;
    guint at = thread_place(space, tid, &known);

    if (known) {
        g_ptr_array_remove_index(space->threads, at);
        drop(s, known, thread_size(known));
        space->changed = true;
    }
}

/* How many mappings begin at or before an address */
static guint mappings_up_to(const GPtrArray *all, uint64_t address)
{
    return (guint)BTRAIL_PTRS_UP_TO(all, struct name_mapping, start, address);
}

/* Takes away a range of addresses, as a mapping there does. */
static void unmap(struct name_spaces *s, GPtrArray *all, uint64_t start,
                  uint64_t end)
{
    guint at = mappings_up_to(all, start), from, to;
    struct name_mapping *m, *rest;

    m = at ? g_ptr_array_index(all, at - 1) : NULL;
    if (m && m->start < start && m->end > start) {
        if (m->end > end) {
            rest = keep(s, m, mapping_size(m));
            if (rest) {
                rest->offset += end - rest->start;
                rest->start = end;
                g_ptr_array_insert(all, (gint)at, rest);
            }
        }
        m->end = start;
    }
    from = to = at - (m && m->start == start);
    while (to < all->len &&
           ((struct name_mapping *)g_ptr_array_index(all, to))->end <= end) {
        drop_mapping(s, g_ptr_array_index(all, to++));
    }
    if (to > from) {
        g_ptr_array_remove_range(all, from, to - from);
    }
    m = from < all->len ? g_ptr_array_index(all, from) : NULL;
    if (m && m->start < end) {
        m->offset += m->offset || *m->path == '/' ? end - m->start : 0;
        m->start = end;
    }
}

static bool is_said(const struct name_mapping *known, const struct word *w)
{
    const struct btrail_guest_mapping *said = &w->mapping;

    return known->start == said->start && known->end == said->end &&
           known->offset == said->offset && known->flags == said->flags &&
           known->build_id_size == said->build_id_size &&
           !memcmp(known->build_id, w->text[1], said->build_id_size) &&
           !strcmp(known->path, w->text[0]);
}

static void add_mapping(struct name_spaces *s, struct name_space *space,
                        const struct word *w)
{
    const struct btrail_guest_mapping *said = &w->mapping;
    GPtrArray *all = space->mappings ? space->mappings->all : NULL;
    guint at = all ? mappings_up_to(all, said->start) : 0;
    struct name_mapping *m;
    size_t size = sizeof(*m) + w->size[0] + 1;

    if (at && is_said(g_ptr_array_index(all, at - 1), w)) {
        return;
    }
    all = own_mappings(s, space);
    if (!all) {
        return;
    }
    unmap(s, all, said->start, said->end);
    if (all->len >= NAME_MAPPINGS_EACH ||
        !btrail_budget_keep(s->budget, size)) {
        return;
    }
    m = g_malloc0(size);
    *m = (struct name_mapping) {
        .start = said->start, .end = said->end, .offset = said->offset,
        .flags = said->flags, .build_id_size = said->build_id_size,
    };
    memcpy(m->build_id, w->text[1], w->size[1]);
    memcpy(m->path, w->text[0], w->size[0] + 1);
    g_ptr_array_insert(all, (gint)mappings_up_to(all, m->start), m);
    space->changed = true;
}

bool name_space_has(const struct name_space *space, uint64_t address)
{
    const GPtrArray *all = space->mappings ? space->mappings->all : NULL;
    guint n = all ? mappings_up_to(all, address) : 0;

    return n && address < ((const struct name_mapping *)g_ptr_array_index(
                               all, n - 1))->end;
}

/* Forgets the mappings and threads that a new description may not have. */
static void begin_description(struct name_spaces *s, struct name_space *space)
{
    drop_mappings(s, space->mappings);
    space->mappings = NULL;
    drop_threads(s, space);
}

static void take_process(struct name_spaces *s, const struct word *w)
{
    const struct btrail_guest_process *p = &w->process;
    struct name_space *space = name_spaces_find(s, p->pid, p->time);

    if (!space && last_of(s, p->pid) &&
        last_of(s, p->pid)->begin > p->time) {
        /* It has executed a program since. */
        return;
    }
    if (!space) {
        space = begin_space(s, p->pid, p->time);
        if (!space) {
            return;
        }
        /* It was there before it was first heard of. */
        space->begin = p->begin && p->begin < p->time ? p->begin : p->time;
    } else if (space->described && space->start_time != p->start_time) {
        /* Its end was lost. */
        space = begin_space(s, p->pid, p->time);
        if (!space) {
            return;
        }
    }
    begin_description(s, space);
    space->start_time = p->start_time;
    space->parent = p->parent;
    space->kernel = p->flags & BTRAIL_GUEST_PROCESS_KERNEL;
    space->described = MAX(p->time, 1);
    space->listed = s->list;
    set_texts(s, space, w->text[0], w->text[1], w->text[2], w->size[2]);
    space->changed = true;
}

static void take_thread(struct name_spaces *s, const struct word *w)
{
    struct name_space *space = name_spaces_find(s, w->thread.pid,
                                                w->thread.time);

    if (space && space->described) {
        add_thread(s, space, w->thread.tid, w->thread.start_time, w->text[0]);
    }
}

static void take_mapping(struct name_spaces *s, const struct word *w)
{
    struct name_space *space = name_spaces_find(s, w->mapping.pid,
                                                w->mapping.time);

    if (space) {
        add_mapping(s, space, w);
    }
}

static void take_fork(struct name_spaces *s, const struct word *w)
{
    const struct btrail_guest_fork *f = &w->fork;
    struct name_space *parent = name_spaces_find(s, f->parent, f->time);
    struct name_space *space;

    if (f->pid == f->parent) {
        if (parent) {
            add_thread(s, parent, f->tid, 0, parent->comm);
        }
        return;
    }
    space = name_spaces_find(s, f->pid, f->time);
    if (space && space->described) {
        /* A list has it already: it says when that one began. */
        space->begin = MAX(space->begin, f->time);
        return;
    }
    space = begin_space(s, f->pid, f->time);
    if (!space) {
        return;
    }
    space->parent = f->parent;
    if (!parent) {
        set_texts(s, space, "", "", "", 0);
    } else {
        set_texts(s, space, parent->comm, parent->exe, parent->command,
                  parent->command_size);
        space->kernel = parent->kernel;
        space->from = parent->number;
        space->mappings = parent->mappings;
        if (space->mappings) {
            space->mappings->refs++;
        }
    }
    add_thread(s, space, f->tid, 0, space->comm);
}

static void take_exit(struct name_spaces *s, const struct word *w)
{
    struct name_space *space = name_spaces_find(s, w->exit.pid, w->exit.time);

    if (!space) {
        return;
    }
    remove_thread(s, space, w->exit.tid);
    /* The first thread can end before others do. */
    if (!space->threads->len) {
        end_space(space, w->exit.time);
    }
}

static void take_name(struct name_spaces *s, const struct word *w)
{
    const struct btrail_guest_name *n = &w->name;
    struct name_space *before = name_spaces_find(s, n->pid, n->time), *space;

    if (!(n->flags & BTRAIL_GUEST_NAME_EXEC)) {
        if (before && n->tid == n->pid && *w->text[0]) {
            set_texts(s, before, w->text[0], before->exe, before->command,
                      before->command_size);
            before->changed = true;
        }
        if (before && *w->text[0]) {
            add_thread(s, before, n->tid, 0, w->text[0]);
        }
        return;
    }
    if (before && before->described > n->time) {
        /* It was described with this program before this was said. */
        before->begin = MAX(before->begin, n->time);
        before->executed = true;
        return;
    }
    before = last_of(s, n->pid);
    space = begin_space(s, n->pid, n->time);
    if (!space) {
        return;
    }
    if (before) {
        space->kernel = before->kernel;
        space->start_time = before->start_time;
        space->parent = before->parent;
    }
    /* What it runs is not known until it is described. */
    set_texts(s, space, *w->text[0] || !before ? w->text[0] : before->comm, "",
              "", 0);
    space->executed = true;
    add_thread(s, space, n->pid, space->start_time, space->comm);
}

/* At the end of a list: what it does not have is gone. */
static void take_listing(struct name_spaces *s, const struct word *w)
{
    if (!w->listing.end) {
        s->list++;
        s->list_begin = w->listing.time;
        s->listing = true;
        return;
    }
    for (guint i = 0; s->listing && i < s->all->len; i++) {
        struct name_space *space = g_ptr_array_index(s->all, i);

        if (space->begin < s->list_begin && space->listed != s->list) {
            end_space(space, s->list_begin);
        }
    }
    s->listing = false;
}

/* Its last ones are read when a process has ended. */
static void take_functions(struct name_spaces *s, const struct word *w)
{
    struct name_space *space = last_of(s, w->functions.pid);

    if (!space || space->begin > w->functions.time) {
        return;
    }
    if (!space->functions) {
        space->functions = name_functions_new(s->budget, space->pid);
        if (!space->functions) {
            return;
        }
        /* They come with the mappings that have them. */
        space->changed = true;
    }
    if (w->functions.flags & BTRAIL_GUEST_FUNCTIONS_BEGIN) {
        name_functions_clear(space->functions);
    }
    name_functions_take(space->functions, w->text[0]);
}

void name_spaces_take(struct name_spaces *s, const struct word *w)
{
    switch (w->type) {
    case BTRAIL_GUEST_HELLO:
        s->listing = false;
        break;
    case BTRAIL_GUEST_LISTING:
        take_listing(s, w);
        break;
    case BTRAIL_GUEST_PROCESS:
        take_process(s, w);
        break;
    case BTRAIL_GUEST_THREAD:
        take_thread(s, w);
        break;
    case BTRAIL_GUEST_MAPPING:
        take_mapping(s, w);
        break;
    case BTRAIL_GUEST_FORK:
        take_fork(s, w);
        break;
    case BTRAIL_GUEST_EXIT:
        take_exit(s, w);
        break;
    case BTRAIL_GUEST_NAME:
        take_name(s, w);
        break;
    case BTRAIL_GUEST_FUNCTIONS:
        take_functions(s, w);
        break;
    default:
        break;
    }
}

void name_spaces_forget(struct name_spaces *s, uint64_t before)
{
    g_autoptr(GHashTable) forgotten = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    gpointer value;
    guint kept = 0;

    for (guint i = 0; i < s->all->len; i++) {
        struct name_space *space = g_ptr_array_index(s->all, i);

        if (space->end < before && (space->gone || !space->root)) {
            g_hash_table_add(forgotten, space);
        } else {
            s->all->pdata[kept++] = space;
        }
    }
    s->all->len = kept;
    for (guint i = 0; i < kept; i++) {
        struct name_space *space = g_ptr_array_index(s->all, i);

        if (space->before && g_hash_table_contains(forgotten, space->before)) {
            space->before = NULL;
        }
    }
    g_hash_table_iter_init(&iter, forgotten);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        struct name_space *space = value;

        if (last_of(s, space->pid) == space) {
            g_hash_table_remove(s->last, GUINT_TO_POINTER(space->pid));
        }
        free_space(s, space);
    }
}
