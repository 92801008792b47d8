/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's words: see word-spaces.h
 */

#include <string.h>

#include "guest-words/word-spaces.h"
#include "util/search.h"

struct word_spaces {
    GPtrArray *all;             /* of struct word_space, which it owns */
    GHashTable *last;           /* pid to its last struct word_space */
    uint64_t number;            /* of the last one */
    uint64_t list;              /* of the list that is being sent */
    uint64_t list_begin;        /* its time */
    bool listing;
    size_t mappings;            /* of all */
    size_t functions;           /* bytes of those of all */
    uint64_t left_out;
};

static void clear_mapping(gpointer p)
{
    g_clear_pointer(&((struct word_mapping *)p)->path, g_ref_string_release);
}

static struct word_mappings *new_mappings(void)
{
    struct word_mappings *m = g_new(struct word_mappings, 1);

    m->refs = 1;
    m->all = g_array_new(FALSE, FALSE, sizeof(struct word_mapping));
    g_array_set_clear_func(m->all, clear_mapping);
    return m;
}

static void drop_mappings(struct word_spaces *s, struct word_mappings *m)
{
    if (m && !--m->refs) {
        s->mappings -= m->all->len;
        g_array_unref(m->all);
        g_free(m);
    }
}

/* Those of a space, for a change: no other space has them then. */
static GArray *own_mappings(struct word_spaces *s, struct word_space *space)
{
    struct word_mappings *m = space->mappings, *own;

    if (m && m->refs == 1) {
        return m->all;
    }
    own = new_mappings();
    /* For as many as there is room */
    for (guint i = 0; m && i < m->all->len; i++) {
        struct word_mapping copy = g_array_index(m->all, struct word_mapping,
                                                 i);

        if (s->mappings == WORD_MAPPINGS_MAX) {
            s->left_out += m->all->len - i;
            break;
        }
        copy.path = g_ref_string_acquire(copy.path);
        g_array_append_val(own->all, copy);
        s->mappings++;
    }
    drop_mappings(s, m);
    space->mappings = own;
    return own->all;
}

static void clear_thread(gpointer p)
{
    g_free((char *)((struct btrail_thread *)p)->comm);
}

static GArray *new_threads(void)
{
    GArray *threads = g_array_new(FALSE, FALSE, sizeof(struct btrail_thread));

    g_array_set_clear_func(threads, clear_thread);
    return threads;
}

static void free_space(struct word_spaces *s, struct word_space *space)
{
    drop_mappings(s, space->mappings);
    s->functions -= space->functions ? space->functions->size : 0;
    word_functions_free(space->functions);
    g_array_unref(space->threads);
    g_free(space->comm);
    g_free(space->exe);
    g_free(space->command);
    g_free(space);
}

struct word_spaces *word_spaces_new(void)
{
    struct word_spaces *s = g_new0(struct word_spaces, 1);

    s->all = g_ptr_array_new();
    s->last = g_hash_table_new(NULL, NULL);
    return s;
}

void word_spaces_free(struct word_spaces *s)
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

const GPtrArray *word_spaces_all(const struct word_spaces *s)
{
    return s->all;
}

uint64_t word_spaces_left_out(const struct word_spaces *s)
{
    return s->left_out;
}

static struct word_space *last_of(const struct word_spaces *s, uint32_t pid)
{
    return g_hash_table_lookup(s->last, GUINT_TO_POINTER(pid));
}

struct word_space *word_spaces_find(struct word_spaces *s, uint32_t pid,
                                    uint64_t time)
{
    struct word_space *space = last_of(s, pid);

    while (space && space->begin > time) {
        space = space->before;
    }
    return space && time < space->end ? space : NULL;
}

static void end_space(struct word_space *space, uint64_t time)
{
    if (space && space->end == UINT64_MAX) {
        space->end = MAX(time, space->begin);
        space->changed = true;
    }
}

/* A process has a new space from a time on; NULL if there are too many. */
static struct word_space *begin_space(struct word_spaces *s, uint32_t pid,
                                      uint64_t time)
{
    struct word_space *before = last_of(s, pid), *space;

    if (before && before->begin > time) {
        /* It says something else of this time already. */
        return NULL;
    }
    end_space(before, time);
    if (s->all->len == WORD_SPACES_MAX) {
        s->left_out++;
        return NULL;
    }
    space = g_new0(struct word_space, 1);
    *space = (struct word_space) {
        .before = before, .number = ++s->number, .begin = time,
        .end = UINT64_MAX, .pid = pid, .comm = g_strdup(""),
        .exe = g_strdup(""), .command = g_strdup(""),
        .threads = new_threads(), .changed = true,
    };
    g_ptr_array_add(s->all, space);
    g_hash_table_insert(s->last, GUINT_TO_POINTER(pid), space);
    return space;
}

static void set_text(char **text, const char *value)
{
    g_free(*text);
    *text = g_strdup(value);
}

/* What a process has of another one, or of itself, when it begins a space */
static void inherit(struct word_space *space, const struct word_space *from)
{
    set_text(&space->comm, from->comm);
    set_text(&space->exe, from->exe);
    g_free(space->command);
    space->command = g_memdup2(from->command, from->command_size + 1);
    space->command_size = from->command_size;
    space->kernel = from->kernel;
}

static gint by_tid(gconstpointer p, gconstpointer q)
{
    const struct btrail_thread *a = p, *b = q;

    return BTRAIL_COMPARE(a->tid, b->tid);
}

static void add_thread(struct word_spaces *s, struct word_space *space,
                       uint32_t tid, uint64_t start_time, const char *comm)
{
    struct btrail_thread thread = { .tid = tid, .vcpu = -1,
                                    .start_time = start_time };
    guint i;

    if (g_array_binary_search(space->threads, &thread, by_tid, &i)) {
        struct btrail_thread *known = &g_array_index(space->threads,
                                                     struct btrail_thread, i);

        if (strcmp(known->comm, comm)) {
            g_free((char *)known->comm);
            known->comm = g_strdup(comm);
            space->changed = true;
        }
        return;
    }
    if (space->threads->len == WORD_THREADS_EACH) {
        s->left_out++;
        return;
    }
    thread.comm = g_strdup(comm);
    g_array_append_val(space->threads, thread);
    if (space->threads->len > 1 && g_array_index(
            space->threads, struct btrail_thread,
            space->threads->len - 2).tid > tid) {
        g_array_sort(space->threads, by_tid);
    }
    space->changed = true;
}

static void remove_thread(struct word_space *space, uint32_t tid)
{
    struct btrail_thread key = { .tid = tid };
    guint i;

    if (g_array_binary_search(space->threads, &key, by_tid, &i)) {
        g_array_remove_index(space->threads, i);
        space->changed = true;
    }
}

/* Takes away a range of addresses, as a mapping there does. */
static void unmap(struct word_spaces *s, GArray *all, uint64_t start,
                  uint64_t end)
{
    for (guint i = 0; i < all->len;) {
        struct word_mapping *m = &g_array_index(all, struct word_mapping, i);
        struct word_mapping rest = *m;

        if (m->end <= start || m->start >= end) {
            i++;
        } else if (m->start < start) {
            m->end = start;
            if (rest.end > end) {
                rest.offset += end - rest.start;
                rest.start = end;
                rest.path = g_ref_string_acquire(rest.path);
                g_array_insert_val(all, i + 1, rest);
                s->mappings++;
            }
            i++;
        } else if (m->end > end) {
            m->offset += m->offset || *m->path == '/' ? end - m->start : 0;
            m->start = end;
            i++;
        } else {
            g_array_remove_index(all, i);
            s->mappings--;
        }
    }
}

static void add_mapping(struct word_spaces *s, struct word_space *space,
                        const struct word *w)
{
    const struct btrail_guest_mapping *said = &w->mapping;
    struct word_mapping m = {
        .start = said->start, .end = said->end, .offset = said->offset,
        .flags = said->flags, .build_id_size = said->build_id_size,
    };
    const struct word_mapping *known;
    GArray *all = space->mappings ? space->mappings->all : NULL;
    guint at;

    memcpy(m.build_id, w->text[1], w->size[1]);
    at = all ? BTRAIL_UP_TO(all->data, all->len, struct word_mapping, start,
                            m.start) : 0;
    known = at ? &g_array_index(all, struct word_mapping, at - 1) : NULL;
    if (known && known->start == m.start && known->end == m.end &&
        known->offset == m.offset && known->flags == m.flags &&
        known->build_id_size == m.build_id_size &&
        !memcmp(known->build_id, m.build_id, m.build_id_size) &&
        !strcmp(known->path, w->text[0])) {
        return;
    }
    all = own_mappings(s, space);
    unmap(s, all, m.start, m.end);
    if (all->len >= WORD_MAPPINGS_EACH || s->mappings >= WORD_MAPPINGS_MAX) {
        s->left_out++;
        return;
    }
    m.path = g_ref_string_new_intern(w->text[0]);
    at = BTRAIL_UP_TO(all->data, all->len, struct word_mapping, start,
                      m.start);
    g_array_insert_val(all, at, m);
    s->mappings++;
    space->changed = true;
}

bool word_space_has(const struct word_space *space, uint64_t address)
{
    const GArray *all = space->mappings ? space->mappings->all : NULL;
    size_t n = all ? BTRAIL_UP_TO(all->data, all->len, struct word_mapping,
                                  start, address) : 0;

    return n && address < g_array_index(all, struct word_mapping, n - 1).end;
}

/* Forgets the mappings and threads that a new description may not have. */
static void begin_description(struct word_spaces *s, struct word_space *space)
{
    drop_mappings(s, space->mappings);
    space->mappings = NULL;
    g_array_set_size(space->threads, 0);
}

static void take_process(struct word_spaces *s, const struct word *w)
{
    const struct btrail_guest_process *p = &w->process;
    struct word_space *space = word_spaces_find(s, p->pid, p->time);

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
    set_text(&space->comm, w->text[0]);
    set_text(&space->exe, w->text[1]);
    g_free(space->command);
    space->command = g_memdup2(w->text[2], w->size[2] + 1);
    space->command_size = w->size[2];
    space->changed = true;
}

static void take_thread(struct word_spaces *s, const struct word *w)
{
    struct word_space *space = word_spaces_find(s, w->thread.pid,
                                                w->thread.time);

    if (space && space->described) {
        add_thread(s, space, w->thread.tid, w->thread.start_time, w->text[0]);
    }
}

static void take_mapping(struct word_spaces *s, const struct word *w)
{
    struct word_space *space = word_spaces_find(s, w->mapping.pid,
                                                w->mapping.time);

    if (space) {
        add_mapping(s, space, w);
    }
}

static void take_fork(struct word_spaces *s, const struct word *w)
{
    const struct btrail_guest_fork *f = &w->fork;
    struct word_space *parent = word_spaces_find(s, f->parent, f->time);
    struct word_space *space;

    if (f->pid == f->parent) {
        if (parent) {
            add_thread(s, parent, f->tid, 0, parent->comm);
        }
        return;
    }
    space = word_spaces_find(s, f->pid, f->time);
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
    if (parent) {
        inherit(space, parent);
        space->from = parent->number;
        space->mappings = parent->mappings;
        if (space->mappings) {
            space->mappings->refs++;
        }
    }
    add_thread(s, space, f->tid, 0, space->comm);
}

static void take_exit(struct word_spaces *s, const struct word *w)
{
    struct word_space *space = word_spaces_find(s, w->exit.pid, w->exit.time);

    if (!space) {
        return;
    }
    remove_thread(space, w->exit.tid);
    /* The first thread can end before others do. */
    if (!space->threads->len) {
        end_space(space, w->exit.time);
    }
}

static void take_name(struct word_spaces *s, const struct word *w)
{
    const struct btrail_guest_name *n = &w->name;
    struct word_space *before = word_spaces_find(s, n->pid, n->time), *space;

    if (!(n->flags & BTRAIL_GUEST_NAME_EXEC)) {
        if (before && n->tid == n->pid && *w->text[0]) {
            set_text(&before->comm, w->text[0]);
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
        inherit(space, before);
        space->start_time = before->start_time;
        space->parent = before->parent;
    }
    /* What it runs is not known until it is described. */
    set_text(&space->exe, "");
    set_text(&space->command, "");
    space->command_size = 0;
    space->executed = true;
    if (*w->text[0]) {
        set_text(&space->comm, w->text[0]);
    }
    add_thread(s, space, n->pid, space->start_time, space->comm);
}

/* At the end of a list: what it does not have is gone. */
static void take_listing(struct word_spaces *s, const struct word *w)
{
    if (!w->listing.end) {
        s->list++;
        s->list_begin = w->listing.time;
        s->listing = true;
        return;
    }
    for (guint i = 0; s->listing && i < s->all->len; i++) {
        struct word_space *space = g_ptr_array_index(s->all, i);

        if (space->begin < s->list_begin && space->listed != s->list) {
            end_space(space, s->list_begin);
        }
    }
    s->listing = false;
}

/* Its last ones are read when a process has ended. */
static void take_functions(struct word_spaces *s, const struct word *w)
{
    struct word_space *space = last_of(s, w->functions.pid);
    struct word_functions *f;

    if (!space || space->begin > w->functions.time) {
        return;
    }
    if (!space->functions) {
        space->functions = word_functions_new(space->pid);
        /* They come with the mappings that have them. */
        space->changed = true;
    }
    f = space->functions;
    s->functions -= f->size;
    if (w->functions.flags & BTRAIL_GUEST_FUNCTIONS_BEGIN) {
        word_functions_clear(f);
    }
    s->left_out += word_functions_take(f, w->text[0],
                                       WORD_FUNCTIONS_MAX - s->functions);
    s->functions += f->size;
}

void word_spaces_take(struct word_spaces *s, const struct word *w)
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

void word_spaces_forget(struct word_spaces *s, uint64_t before)
{
    g_autoptr(GHashTable) forgotten = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    gpointer value;
    guint kept = 0;

    for (guint i = 0; i < s->all->len; i++) {
        struct word_space *space = g_ptr_array_index(s->all, i);

        if (space->end < before && (space->gone || !space->root)) {
            g_hash_table_add(forgotten, space);
        } else {
            s->all->pdata[kept++] = space;
        }
    }
    s->all->len = kept;
    for (guint i = 0; i < kept; i++) {
        struct word_space *space = g_ptr_array_index(s->all, i);

        if (space->before && g_hash_table_contains(forgotten, space->before)) {
            space->before = NULL;
        }
    }
    g_hash_table_iter_init(&iter, forgotten);
    while (g_hash_table_iter_next(&iter, &value, NULL)) {
        struct word_space *space = value;

        if (last_of(s, space->pid) == space) {
            g_hash_table_remove(s->last, GUINT_TO_POINTER(space->pid));
        }
        free_space(s, space);
    }
}
