/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places of a replay as people name them: see place.h
 */

#include <string.h>

#include "backtrail/names.h"
#include "replay/place.h"
#include "util/hash.h"
#include "util/parse.h"

#define fail(error, ...) \
    btrail_agent_fail(error, BTRAIL_AGENT_ERROR_COMMAND, __VA_ARGS__)

/* What is known of a place in a trace */
struct found {
    bool known;
    bool exact;
    uint64_t icount;
};

static bool library_failed(GError **error, int ret)
{
    return fail(error, "the trace: %s", btrail_strerror(ret));
}

/* Moves behind a word and the blanks after it. */
static bool take_word(const char **text, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*text, word, len) || (*text)[len] != ' ') {
        return false;
    }
    *text += len + strspn(*text + len, " ");
    return true;
}

static bool parse_record(const char *text, struct replay_place *p)
{
    const char *end;
    uint64_t vcpu = 0;

    if (*text == '@') {
        end = text;
    } else if (!btrail_parse_number(text, &end, &vcpu) || *end != ':' ||
               vcpu >= BTRAIL_MAX_VCPUS) {
        return false;
    }
    p->kind = REPLAY_PLACE_RECORD;
    p->vcpu = vcpu;
    return btrail_parse_number(end + 1, NULL, &p->number);
}

static bool parse_name(const char *text, struct replay_place *p)
{
    bool first = take_word(&text, "first");
    const char *hash;

    p->last = !first && take_word(&text, "last");
    p->number = 1;
    if (take_word(&text, "exit")) {
        p->kind = REPLAY_PLACE_EXIT;
        if (!take_word(&text, "of") || !*text) {
            return false;
        }
        p->name = g_strdup(text);
        return first || p->last;
    }
    p->kind = REPLAY_PLACE_FUNCTION;
    hash = strrchr(text, '#');
    if (hash && (first || p->last ||
                 !btrail_parse_number(hash + 1, NULL, &p->number) ||
                 !p->number)) {
        return false;
    }
    p->name = g_strndup(text, hash ? (size_t)(hash - text) : strlen(text));
    /* A function of the kernel may be named so. */
    if (g_str_has_prefix(p->name, "kernel:")) {
        memmove(p->name, p->name + strlen("kernel:"),
                strlen(p->name + strlen("kernel:")) + 1);
    }
    /* Compilers add suffixes with points. */
    return *p->name && !g_ascii_isdigit(*p->name) &&
           !p->name[strspn(p->name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS
                                    "_.")];
}

bool replay_place_parse(const char *text, struct replay_place *place,
                        GError **error)
{
    memset(place, 0, sizeof(*place));
    if (btrail_parse_number(text, NULL, &place->number)) {
        place->kind = REPLAY_PLACE_ICOUNT;
        return true;
    }
    if (btrail_parse_time(text, NULL, &place->number)) {
        if (g_ascii_isalpha(text[strlen(text) - 1])) {
            place->kind = REPLAY_PLACE_TIME;
            return true;
        }
    } else if (parse_record(text, place) || parse_name(text, place)) {
        return true;
    }
    replay_place_clear(place);
    return fail(error, "'%s' is not a place; there are a number of "
                "instructions (123456), a time of the guest (1.5s), a record "
                "(@N or VCPU:N), a function of the kernel (panic, panic#3, "
                "last panic), and 'last exit of PROCESS'", text);
}

void replay_place_clear(struct replay_place *place)
{
    g_clear_pointer(&place->name, g_free);
}

/* The count behind a record, or the last one that is known before */
static struct found behind(const struct btrail_record *r,
                           const struct btrail_time *time)
{
    uint64_t icount = btrail_record_icount(r, time);
    bool exact = icount != BTRAIL_NO_ICOUNT;

    return (struct found) {
        .known = time->icount != BTRAIL_NO_ICOUNT,
        .exact = exact,
        .icount = exact ? icount : time->icount,
    };
}

static bool need(const struct found *f, uint64_t *icount, bool *exact,
                 GError **error)
{
    if (!f->known) {
        return fail(error, "the trace has no instruction counts; it is not "
                    "one of a replay");
    }
    *icount = f->icount;
    *exact = f->exact;
    return true;
}

/* Reads one record, with what is known of it. */
static bool find_record(const struct btrail_trace *trace, unsigned vcpu,
                        uint64_t index, struct found *f, GError **error)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, vcpu, 0);

    if (ret) {
        return library_failed(error, ret);
    }
    ret = btrail_cursor_seek(cursor, index);
    while (!ret && !(ret = btrail_cursor_next(cursor, &b)) && b.event) {
        continue;
    }
    if (!ret && b.index == index) {
        *f = behind(&b.records[0], &b.time);
    }
    btrail_cursor_close(cursor);
    if (ret == -BTRAIL_ERR_END || (!ret && b.index != index)) {
        return fail(error, "vCPU %u has no record %" G_GUINT64_FORMAT, vcpu,
                    index);
    }
    return !ret || library_failed(error, ret);
}

/* The first TIME event at which the guest's clock has got there */
static bool find_time(const struct btrail_trace *trace, uint64_t ns,
                      struct found *f, GError **error)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, 0,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return library_failed(error, ret);
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        /* With -icount, the TSC counts nanoseconds of the guest's time. */
        if (b.event->type == BTRAIL_EVENT_TIME && b.time.tsc >= ns) {
            f->known = b.time.icount != BTRAIL_NO_ICOUNT;
            f->icount = b.time.icount;
            f->exact = true;
            break;
        }
    }
    btrail_cursor_close(cursor);
    return !ret || (ret == -BTRAIL_ERR_END ?
                    fail(error, "the recording is not that long") :
                    library_failed(error, ret));
}

/* Where a process has run last, by its number */
struct last_run {
    uint32_t pid;
    uint64_t end;               /* index of the record behind */
};

static void note_run(GHashTable *runs, const struct btrail_task *task,
                     uint64_t index)
{
    gpointer key = GUINT_TO_POINTER(task->pid);
    struct last_run *run = g_hash_table_lookup(runs, key);

    if (!run) {
        run = g_new0(struct last_run, 1);
        g_hash_table_insert(runs, key, run);
    }
    run->pid = task->pid;
    run->end = index;
}

/* The first or last of them, as an index; UINT64_MAX if there is none */
static uint64_t pick_run(GHashTable *runs, bool last)
{
    uint64_t best = UINT64_MAX;
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, runs);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct last_run *run = value;

        if (best == UINT64_MAX || (last ? run->end > best : run->end < best)) {
            best = run->end;
        }
    }
    return best;
}

static bool find_exit(const struct btrail_trace *trace,
                      const struct replay_place *p, struct found *f,
                      GError **error)
{
    g_autoptr(GHashTable) runs = g_hash_table_new_full(NULL, NULL, NULL,
                                                       g_free);
    struct btrail_task task = { .known = false };
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool named = false;
    uint64_t end;
    int ret = btrail_cursor_open(&cursor, trace, 0,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return library_failed(error, ret);
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        if (b.event->type != BTRAIL_EVENT_TASK) {
            continue;
        }
        if (task.known && !task.kernel && b.index &&
            !strcmp(task.name, p->name)) {
            note_run(runs, &task, b.index);
        }
        task = b.task;
        named = true;
    }
    btrail_cursor_close(cursor);
    if (ret != -BTRAIL_ERR_END) {
        return library_failed(error, ret);
    }
    end = pick_run(runs, p->last);
    if (end == UINT64_MAX) {
        return fail(error, named ? "no process %s has run and ended" :
                    "the trace names no processes, and has no %s", p->name);
    }
    return find_record(trace, 0, end - 1, f, error);
}

/* The addresses of a function of the kernel: keys are uint64_t */
static GHashTable *find_addresses(const struct btrail_trace *trace,
                                  const char *name, GError **error)
{
    GHashTable *addresses = g_hash_table_new_full(btrail_int64_hash,
                                                  g_int64_equal, g_free, NULL);
    struct btrail_names *names;
    struct btrail_symbol symbol;
    int ret = btrail_names_open(&names, trace);

    if (ret) {
        library_failed(error, ret);
        g_hash_table_unref(addresses);
        return NULL;
    }
    for (size_t i = 0; !btrail_names_symbol(names, i, &symbol); i++) {
        if (!strcmp(symbol.name, name)) {
            g_hash_table_add(addresses,
                             g_memdup2(&symbol.address,
                                       sizeof(symbol.address)));
        }
    }
    btrail_names_close(names);
    if (!g_hash_table_size(addresses)) {
        fail(error, "the guest's kernel has no function %s, or the trace has "
             "no names", name);
        g_clear_pointer(&addresses, g_hash_table_unref);
    }
    return addresses;
}

static bool find_function(const struct btrail_trace *trace,
                          const struct replay_place *p, struct found *f,
                          GError **error)
{
    g_autoptr(GHashTable) addresses = find_addresses(trace, p->name, error);
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t times = 0;
    int ret;

    if (!addresses) {
        return false;
    }
    ret = btrail_cursor_open(&cursor, trace, 0, 0);
    if (ret) {
        return library_failed(error, ret);
    }
    while ((p->last || times < p->number) &&
           !(ret = btrail_cursor_next(cursor, &b))) {
        for (size_t i = 0; !b.event && i < b.count &&
             (p->last || times < p->number); i++) {
            /* Kernels are in the upper half. */
            if (b.records[i].to >> 63 &&
                g_hash_table_contains(addresses, &b.records[i].to)) {
                times++;
                *f = behind(&b.records[i], &b.time);
            }
        }
    }
    btrail_cursor_close(cursor);
    if (ret && ret != -BTRAIL_ERR_END) {
        return library_failed(error, ret);
    }
    if (!times || (!p->last && times < p->number)) {
        return fail(error, "%s runs %" G_GUINT64_FORMAT " times", p->name,
                    times);
    }
    return true;
}

bool replay_place_find(const struct replay_place *place,
                       const struct btrail_trace *trace, uint64_t *icount,
                       bool *exact, GError **error)
{
    struct found f = { .known = false };
    bool ok = false;

    if (place->kind == REPLAY_PLACE_ICOUNT) {
        *icount = place->number;
        *exact = true;
        return true;
    }
    if (!trace) {
        return fail(error, "there is no trace yet to find this place in; "
                    "backtrail rr replay makes it");
    }
    switch (place->kind) {
    case REPLAY_PLACE_TIME:
        ok = find_time(trace, place->number, &f, error);
        break;
    case REPLAY_PLACE_RECORD:
        ok = find_record(trace, place->vcpu, place->number, &f, error);
        break;
    case REPLAY_PLACE_FUNCTION:
        ok = find_function(trace, place, &f, error);
        break;
    default:
        ok = find_exit(trace, place, &f, error);
        break;
    }
    return ok && need(&f, icount, exact, error);
}
