/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who ran, and what is where: names of a trace at a time
 *
 * A *life* is a process with one address space, from when it was first seen
 * to when it was last seen.  It has *versions*: what it was like in the snapshots.
 * Snapshots that found the same make one version, so that a trace of days takes
 * no more memory than what changed in it.
 */

#include <stdlib.h>

#include "backtrail/words.h"
#include "lib/internal/bytes.h"
#include "lib/internal/identity.h"
#include "lib/internal/meta.h"
#include "lib/internal/names.h"
#include "util/search.h"

/* What snapshots and symbols may take in memory; later ones are left out. */
#define MEMORY_MAX      (1ull << 30)
/* A symbol without a next one is no longer than this. */
#define SYMBOL_SIZE_MAX (1u << 20)
/* A tick, if the trace does not tell how long it is; and the longest one */
#define TICK            UINT64_C(1000000)
#define TICK_MAX        UINT64_C(10000000000)
/* Where the kernel's half begins, with page tables of any depth */
#define KERNEL_HALF     (UINT64_C(1) << 63)

struct version {
    struct btrail_process process;  /* first: users have a pointer to it */
    struct btrail_life *life;
    guint number;               /* in the life */
    uint64_t begin;             /* of the first snapshot that found it so */
    uint64_t end;               /* of the last one */
};

struct btrail_life {
    struct btrail_identity id;
    uint64_t first;
    uint64_t last;
    GPtrArray *versions;        /* in the order of time */
};

/* What has used page tables at one place, one after the other */
struct root {
    GPtrArray *lives;           /* in the order in which they were first seen */
    struct btrail_life **latest;    /* of those up to here the one seen last */
};

struct symbols {
    uint64_t time;
    char *text;                 /* with NULs where names end */
    GArray *entries;            /* struct symbol, in the order of addresses */
};

struct symbol {
    uint64_t address;
    const char *name;
    const char *module;
    uint32_t order;
    char type;
};

/* When a snapshot was taken */
struct moment {
    uint64_t begin;
    uint64_t end;
};

struct btrail_names {
    GPtrArray *snapshots;           /* struct btrail_snapshot that versions are of */
    GPtrArray *lives;
    GPtrArray *versions;
    GHashTable *by_identity;    /* of struct btrail_life, by its id */
    GHashTable *by_root;        /* uint64_t to struct root */
    GHashTable *user_roots;     /* uint64_t to that of kernel mode */
    GArray *moments;            /* struct moment, in the order of time */
    GPtrArray *symbols;         /* in the order of time */
    bool unfiltered;            /* the trace has all that the vCPUs did */
    bool all_vcpus;
    uint64_t tick;              /* how much later than its time a record is */
    uint64_t memory;
    uint64_t cut;               /* nothing is known from then on */
};

/* Is it looked up by a CR3?  Threads of the kernel have but borrowed theirs. */
static bool owns_root(const struct btrail_process *p)
{
    return p->pgd && (!(p->flags & BTRAIL_PROCESS_KERNEL) || !p->pid);
}

static bool same_mapping(const struct btrail_mapping *a,
                         const struct btrail_mapping *b)
{
    return a->start == b->start && a->end == b->end &&
           a->offset == b->offset && a->flags == b->flags &&
           a->build_id_size == b->build_id_size &&
           (!a->build_id_size ||
            !memcmp(a->build_id, b->build_id, a->build_id_size)) &&
           !strcmp(a->path, b->path);
}

/* All but when it was seen, and what ran it at that moment */
static bool same_content(const struct btrail_process *a,
                         const struct btrail_process *b)
{
    uint32_t i;

    if (a->flags != b->flags || a->parent != b->parent ||
        a->n_threads != b->n_threads || a->n_mappings != b->n_mappings ||
        a->command_line_size != b->command_line_size ||
        memcmp(a->command_line, b->command_line, a->command_line_size) ||
        strcmp(a->comm, b->comm) || strcmp(a->exe, b->exe)) {
        return false;
    }
    for (i = 0; i < a->n_threads; i++) {
        if (a->threads[i].tid != b->threads[i].tid ||
            strcmp(a->threads[i].comm, b->threads[i].comm)) {
            return false;
        }
    }
    for (i = 0; i < a->n_mappings; i++) {
        if (!same_mapping(&a->mappings[i], &b->mappings[i])) {
            return false;
        }
    }
    return true;
}

static void add_root(struct btrail_names *n, uint64_t root,
                     struct btrail_life *life)
{
    struct root *r;

    root &= BTRAIL_CR3_ROOT;
    if (!root) {
        return;
    }
    r = g_hash_table_lookup(n->by_root, &root);
    if (!r) {
        r = g_new0(struct root, 1);
        r->lives = g_ptr_array_new();
        g_hash_table_insert(n->by_root, g_memdup2(&root, sizeof(root)), r);
    }
    g_ptr_array_add(r->lives, life);
}

/* If a guest says that two have the same one, the first one counts. */
static void add_user_root(struct btrail_names *n,
                          const struct btrail_process *p)
{
    uint64_t root = p->user_pgd & BTRAIL_CR3_ROOT;

    if (root && !g_hash_table_contains(n->user_roots, &root)) {
        uint64_t pgd = p->pgd & BTRAIL_CR3_ROOT;

        g_hash_table_insert(n->user_roots, g_memdup2(&root, sizeof(root)),
                            g_memdup2(&pgd, sizeof(pgd)));
    }
}

static void free_root(gpointer p)
{
    struct root *r = p;

    g_ptr_array_free(r->lives, TRUE);
    g_free(r->latest);
    g_free(r);
}

static gint by_first(gconstpointer p, gconstpointer q)
{
    const struct btrail_life *a = *(struct btrail_life *const *)p;
    const struct btrail_life *b = *(struct btrail_life *const *)q;

    return a->first < b->first ? -1 : a->first > b->first;
}

static void sort_root(gpointer key, gpointer value, gpointer opaque)
{
    struct root *r = value;
    guint i;

    g_ptr_array_sort(r->lives, by_first);
    r->latest = g_new(struct btrail_life *, r->lives->len);
    for (i = 0; i < r->lives->len; i++) {
        struct btrail_life *life = g_ptr_array_index(r->lives, i);

        r->latest[i] = i && r->latest[i - 1]->last >= life->last ?
                       r->latest[i - 1] : life;
    }
}

/* True if the snapshot is needed further on: a version is of it */
static bool add_process(struct btrail_names *n, const struct btrail_snapshot *snapshot,
                        const struct btrail_process *p)
{
    struct btrail_identity id = btrail_identity_of(p);
    struct btrail_life *life;
    struct version *v = NULL;

    id.user_pgd = p->user_pgd;
    life = g_hash_table_lookup(n->by_identity, &id);
    if (!life) {
        life = g_new0(struct btrail_life, 1);
        life->id = id;
        life->first = p->first;
        life->last = p->last;
        life->versions = g_ptr_array_new();
        g_ptr_array_add(n->lives, life);
        g_hash_table_insert(n->by_identity, &life->id, life);
        if (owns_root(p)) {
            add_root(n, p->pgd, life);
            if (p->user_pgd != p->pgd) {
                add_root(n, p->user_pgd, life);
                add_user_root(n, p);
            }
        }
        n->memory += sizeof(*life) + 200;
    } else {
        life->first = MIN(life->first, p->first);
        life->last = MAX(life->last, p->last);
        v = g_ptr_array_index(life->versions, life->versions->len - 1);
    }
    if (v && (p->flags & BTRAIL_PROCESS_SEEN)) {
        return false;
    }
    if (v && same_content(&v->process, p)) {
        v->end = MAX(v->end, snapshot->end);
        return false;
    }
    if (v && (v->process.flags & BTRAIL_PROCESS_SEEN)) {
        /* Here is what was missing. */
        v->process = *p;
        v->end = snapshot->end;
        return true;
    }
    v = g_new0(struct version, 1);
    v->process = *p;
    v->life = life;
    v->number = life->versions->len;
    v->begin = snapshot->begin;
    v->end = snapshot->end;
    g_ptr_array_add(life->versions, v);
    g_ptr_array_add(n->versions, v);
    n->memory += sizeof(*v) + 64 +
                 p->n_threads * sizeof(*p->threads) +
                 p->n_mappings * sizeof(*p->mappings);
    return true;
}

static void add_look(struct btrail_names *n, struct btrail_snapshot *snapshot,
                     size_t size)
{
    struct moment moment = { snapshot->begin, snapshot->end };
    bool needed = false;
    uint32_t i;

    g_array_append_val(n->moments, moment);
    n->memory += sizeof(moment);
    for (i = 0; i < snapshot->n; i++) {
        needed |= add_process(n, snapshot, &snapshot->processes[i]);
    }
    if (needed) {
        g_ptr_array_add(n->snapshots, snapshot);
        n->memory += size + snapshot->n * sizeof(*snapshot->processes);
    } else {
        btrail_snapshot_free(snapshot);
    }
}

static gint by_address(gconstpointer p, gconstpointer q)
{
    const struct symbol *a = p, *b = q;

    if (a->address != b->address) {
        return a->address < b->address ? -1 : 1;
    }
    return a->order < b->order ? -1 : a->order > b->order;
}

/* "address type name", and for a module "\t[module]" behind it */
static bool parse_line(char *line, struct symbol *s)
{
    char *end;
    char *tab;

    if (!g_ascii_isxdigit(*line)) {
        return false;
    }
    s->address = g_ascii_strtoull(line, &end, 16);
    if (end[0] != ' ' || !end[1] || end[2] != ' ' || !end[3] ||
        s->address < KERNEL_HALF) {
        return false;
    }
    s->type = end[1];
    s->name = end + 3;
    s->module = NULL;
    tab = strchr(end + 3, '\t');
    if (tab) {
        size_t n = strlen(tab);

        *tab = 0;
        if (tab[1] == '[' && n > 3 && tab[n - 1] == ']') {
            tab[n - 1] = 0;
            s->module = tab + 2;
        }
    }
    return true;
}

static void add_symbols(struct btrail_names *n, uint64_t time,
                        const char *data, size_t size)
{
    struct symbols *s = g_new0(struct symbols, 1);
    char *line;
    char *end;

    s->time = time;
    s->text = g_malloc(size + 1);
    if (size) {
        memcpy(s->text, data, size);
    }
    s->text[size] = 0;
    s->entries = g_array_new(FALSE, FALSE, sizeof(struct symbol));
    for (line = s->text; line < s->text + size; line = end + 1) {
        struct symbol symbol;

        end = line + strcspn(line, "\n");
        *end = 0;
        symbol.order = s->entries->len;
        if (parse_line(line, &symbol)) {
            g_array_append_val(s->entries, symbol);
        }
    }
    g_array_sort(s->entries, by_address);
    g_ptr_array_add(n->symbols, s);
    n->memory += size + s->entries->len * sizeof(struct symbol);
}

static void free_life(gpointer p)
{
    struct btrail_life *life = p;

    g_ptr_array_free(life->versions, TRUE);
    g_free(life);
}

static void free_symbols(gpointer p)
{
    struct symbols *s = p;

    g_free(s->text);
    g_array_free(s->entries, TRUE);
    g_free(s);
}

static struct btrail_names *names_new(void)
{
    struct btrail_names *n = g_new0(struct btrail_names, 1);

    n->snapshots = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_snapshot_free);
    n->lives = g_ptr_array_new_with_free_func(free_life);
    n->versions = g_ptr_array_new_with_free_func(g_free);
    n->by_identity = g_hash_table_new(btrail_identity_hash,
                                      btrail_identity_equal);
    n->by_root = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                       free_root);
    n->user_roots = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                          g_free);
    n->moments = g_array_new(FALSE, FALSE, sizeof(struct moment));
    n->symbols = g_ptr_array_new_with_free_func(free_symbols);
    n->cut = UINT64_MAX;
    return n;
}

void btrail_names_close(struct btrail_names *n)
{
    if (n) {
        g_hash_table_destroy(n->by_identity);
        g_hash_table_destroy(n->by_root);
        g_hash_table_destroy(n->user_roots);
        g_ptr_array_free(n->versions, TRUE);
        g_ptr_array_free(n->lives, TRUE);
        g_ptr_array_free(n->snapshots, TRUE);
        g_array_free(n->moments, TRUE);
        g_ptr_array_free(n->symbols, TRUE);
        g_free(n);
    }
}

/*
 * The tick, and whether the trace has all that the guest did.  If a piece of
 * the description cannot be read, it may have named a filter.
 */
static void read_meta(struct btrail_names *n, const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);
    gint64 tick = btrail_json_int(meta, "tick_ns", -1);
    const char *privilege = btrail_json_string(meta, "privilege");
    int all = BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL;

    n->tick = tick < 0 ? TICK : MIN((uint64_t)tick, TICK_MAX);
    n->unfiltered = !bad && btrail_privilege_value(privilege) == all &&
                    !json_object_has_member(meta, "cr3_filter") &&
                    !json_object_has_member(meta, "processes");
    n->all_vcpus = !bad && !json_object_has_member(meta, "vcpu_filter");
}

/* A piece of sideband that has names */
struct piece {
    uint64_t time;
    unsigned number;
    uint16_t kind;
};

static gint by_time(gconstpointer p, gconstpointer q)
{
    const struct piece *a = p, *b = q;

    if (a->time != b->time) {
        return a->time < b->time ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static int list_pieces(const struct btrail_trace *trace, GArray *pieces)
{
    struct btrail_sideband_info info;
    unsigned i;
    int ret;

    for (i = 0; !(ret = btrail_trace_sideband(trace, i, &info, NULL)); i++) {
        struct piece piece = { info.time, i, info.kind };

        if (info.kind == BTRAIL_SIDEBAND_SYMBOLS ||
            info.kind == BTRAIL_SIDEBAND_PROCESSES) {
            g_array_append_val(pieces, piece);
        }
    }
    g_array_sort(pieces, by_time);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* A ring carries its pieces on, so that one can come twice: it is the same. */
static bool is_copy(const GArray *pieces, guint i, const void *data,
                    size_t size, const void *before, size_t before_size)
{
    const struct piece *p = &g_array_index(pieces, struct piece, i);

    return i && before && p[-1].time == p->time && p[-1].kind == p->kind &&
           size == before_size && !memcmp(data, before, size);
}

static int read_pieces(struct btrail_names *n,
                       const struct btrail_trace *trace, const GArray *pieces)
{
    void *before = NULL;
    size_t before_size = 0;
    guint i;
    int ret = 0;

    for (i = 0; i < pieces->len && n->memory < MEMORY_MAX; i++) {
        const struct piece *p = &g_array_index(pieces, struct piece, i);
        struct btrail_sideband_info info;
        struct btrail_snapshot *snapshot;
        void *data;

        ret = btrail_trace_sideband(trace, p->number, &info, &data);
        if (ret == -BTRAIL_ERR_CORRUPT) {
            ret = 0;
            continue;
        }
        if (ret) {
            break;
        }
        if (is_copy(pieces, i, data, info.size, before, before_size)) {
            free(data);
            continue;
        }
        if (info.kind == BTRAIL_SIDEBAND_SYMBOLS) {
            add_symbols(n, info.time, data, info.size);
        } else if (!btrail_snapshot_decode(&snapshot, data, info.size)) {
            add_look(n, snapshot, info.size);
        }
        free(before);
        before = data;
        before_size = info.size;
    }
    if (!ret && i < pieces->len) {
        n->cut = g_array_index(pieces, struct piece, i).time;
    }
    free(before);
    return ret;
}

static gint by_begin(gconstpointer p, gconstpointer q)
{
    const struct moment *a = p, *b = q;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

int btrail_names_open(struct btrail_names **names,
                      const struct btrail_trace *trace)
{
    struct btrail_names *n;
    GArray *pieces;
    int ret;

    if (!names || !trace) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    n = names_new();
    read_meta(n, trace);
    pieces = g_array_new(FALSE, FALSE, sizeof(struct piece));
    ret = list_pieces(trace, pieces);
    if (!ret) {
        ret = read_pieces(n, trace, pieces);
    }
    g_array_free(pieces, TRUE);
    if (ret) {
        btrail_names_close(n);
        return ret;
    }
    g_array_sort(n->moments, by_begin);
    g_hash_table_foreach(n->by_root, sort_root, NULL);
    *names = n;
    return 0;
}

/* Is there a snapshot that began after @from and had ended by @to? */
static bool looked(const struct btrail_names *n, uint64_t from, uint64_t to)
{
    guint i = BTRAIL_UP_TO(n->moments->data, n->moments->len, struct moment,
                           begin, from);

    /* They do not overlap, unless the file lies: the next one tells. */
    return i < n->moments->len &&
           g_array_index(n->moments, struct moment, i).end <= to;
}

/* The last version that begins at @time or before; the first if none does */
static guint version_at(const struct btrail_life *life, uint64_t time)
{
    size_t n = BTRAIL_PTRS_UP_TO(life->versions, struct version, begin, time);

    return n ? n - 1 : 0;
}

const struct btrail_process *
btrail_life_process(const struct btrail_life *life, uint64_t time)
{
    struct version *v = g_ptr_array_index(life->versions,
                                          version_at(life, time));

    return &v->process;
}

/* How many of its lives were first seen at @time or before */
static guint first_after(const struct root *r, uint64_t time)
{
    return BTRAIL_PTRS_UP_TO(r->lives, struct btrail_life, first, time);
}

const struct btrail_process *
btrail_names_last(const struct btrail_process *process)
{
    return process ? btrail_life_process(
        ((const struct version *)process)->life, UINT64_MAX) : NULL;
}

const struct btrail_process *
btrail_names_before(const struct btrail_process *process)
{
    const struct version *v = (const struct version *)process;

    return v && v->number ?
           g_ptr_array_index(v->life->versions, v->number - 1) : NULL;
}

uint64_t btrail_names_tick(const struct btrail_names *names)
{
    return names->tick;
}

bool btrail_names_unfiltered(const struct btrail_names *names)
{
    return names->unfiltered;
}

bool btrail_names_all_vcpus(const struct btrail_names *names)
{
    return names->all_vcpus;
}

uint64_t btrail_names_root(const struct btrail_names *names, uint64_t cr3)
{
    uint64_t root = cr3 & BTRAIL_CR3_ROOT;
    const uint64_t *kernel = g_hash_table_lookup(names->user_roots, &root);

    return kernel ? *kernel : root;
}

struct btrail_life *btrail_names_life(const struct btrail_names *names,
                                      uint64_t root, uint64_t from,
                                      uint64_t to)
{
    const struct root *r = g_hash_table_lookup(names->by_root, &root);
    struct btrail_life *found = NULL;
    guint i;

    if (!r || from > to || to >= names->cut) {
        return NULL;
    }
    for (i = first_after(r, to); i-- && r->latest[i]->last >= from;) {
        struct btrail_life *life = g_ptr_array_index(r->lives, i);

        if (life->last >= from) {
            if (found) {
                return NULL;
            }
            found = life;
        }
    }
    return found;
}

static enum btrail_certainty answer(const struct btrail_life *life,
                                    uint64_t time,
                                    enum btrail_certainty certainty,
                                    const struct btrail_process **process)
{
    *process = btrail_life_process(life, time);
    return certainty;
}

enum btrail_certainty
btrail_names_process(const struct btrail_names *names, uint64_t time,
                     uint64_t cr3, const struct btrail_process **process)
{
    uint64_t root = cr3 & BTRAIL_CR3_ROOT;
    const struct btrail_life *in = NULL, *before = NULL, *after = NULL;
    uint64_t until;
    bool shared = false;
    const struct root *r;
    guint low;

    if (!process) {
        return BTRAIL_UNKNOWN;
    }
    *process = NULL;
    if (!names || time >= names->cut) {
        return BTRAIL_UNKNOWN;
    }
    until = time > UINT64_MAX - names->tick ? UINT64_MAX :
            time + names->tick;
    r = g_hash_table_lookup(names->by_root, &root);
    if (!r) {
        return BTRAIL_UNKNOWN;
    }
    low = first_after(r, time);
    if (low < r->lives->len) {
        after = g_ptr_array_index(r->lives, low);
    }
    if (low) {
        before = r->latest[low - 1];
    }
    while (low-- && r->latest[low]->last >= until) {
        const struct btrail_life *life = g_ptr_array_index(r->lives, low);

        if (life->last < until) {
            continue;
        }
        if (in && in->id.mm != life->id.mm) {
            return BTRAIL_UNKNOWN;
        }
        shared |= in != NULL;
        if (!in || life->id.start_time < in->id.start_time) {
            in = life;
        }
    }
    if (in) {
        return answer(in, time, shared ? BTRAIL_LIKELY : BTRAIL_SURE,
                      process);
    }
    /* One that a later snapshot has not found any more may be gone at any time. */
    if (before && (after || looked(names, before->last, UINT64_MAX))) {
        return BTRAIL_UNKNOWN;
    }
    if (after && looked(names, 0, after->first)) {
        return BTRAIL_UNKNOWN;
    }
    if (before || after) {
        return answer(before ? before : after, time, BTRAIL_LIKELY, process);
    }
    return BTRAIL_UNKNOWN;
}

static const struct btrail_mapping *find_mapping(const struct version *v,
                                                 uint64_t address)
{
    const struct btrail_mapping *all = v->process.mappings;
    size_t n = BTRAIL_UP_TO(all, v->process.n_mappings, struct btrail_mapping,
                            start, address);

    return n && address < all[n - 1].end ? &all[n - 1] : NULL;
}

/* Is what is at an address the same, however far it reaches? */
static bool same_place(const struct btrail_mapping *a,
                       const struct btrail_mapping *b)
{
    return a->start - a->offset == b->start - b->offset &&
           !strcmp(a->path, b->path) &&
           a->build_id_size == b->build_id_size &&
           (!a->build_id_size ||
            !memcmp(a->build_id, b->build_id, a->build_id_size));
}

enum btrail_certainty
btrail_names_mapping(const struct btrail_names *names,
                     const struct btrail_process *process, uint64_t time,
                     uint64_t address, const struct btrail_mapping **mapping)
{
    const struct version *before = NULL, *after = NULL;
    const struct btrail_mapping *a, *b;
    const struct btrail_life *life;
    guint i;

    if (!mapping) {
        return BTRAIL_UNKNOWN;
    }
    *mapping = NULL;
    if (!names || !process) {
        return BTRAIL_UNKNOWN;
    }
    life = ((const struct version *)process)->life;
    i = version_at(life, time);
    before = g_ptr_array_index(life->versions, i);
    if (before->begin > time) {
        after = before;
        before = NULL;
    } else if (before->end >= time) {
        after = before;
    } else if (i + 1 < life->versions->len) {
        after = g_ptr_array_index(life->versions, i + 1);
    }
    a = before ? find_mapping(before, address) : NULL;
    b = after ? find_mapping(after, address) : NULL;
    if (a && b && !same_place(a, b)) {
        bool was_code = a->flags & BTRAIL_MAPPING_EXEC;

        if (was_code == !!(b->flags & BTRAIL_MAPPING_EXEC)) {
            return BTRAIL_UNKNOWN;
        }
        a = was_code ? a : NULL;
        b = was_code ? NULL : b;
    }
    *mapping = a ? a : b;
    return a && b ? BTRAIL_SURE : a || b ? BTRAIL_LIKELY : BTRAIL_UNKNOWN;
}

/* @next: the first entry that begins behind it */
static void set_symbol(struct btrail_symbol *symbol, const struct symbols *s,
                       const struct symbol *found, guint next)
{
    *symbol = (struct btrail_symbol) {
        .address = found->address,
        .end = found->address > UINT64_MAX - SYMBOL_SIZE_MAX ?
               UINT64_MAX : found->address + SYMBOL_SIZE_MAX,
        .name = found->name,
        .module = found->module,
        .type = found->type,
    };
    if (next < s->entries->len) {
        symbol->end = MIN(symbol->end, g_array_index(
            s->entries, struct symbol, next).address);
    }
}

int btrail_names_kernel_symbol(const struct btrail_names *names,
                               uint64_t time, uint64_t address,
                               struct btrail_symbol *symbol)
{
    const struct symbols *s = NULL;
    const struct symbol *found;
    guint i, next;

    if (!names || !symbol) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (i = 0; i < names->symbols->len; i++) {
        const struct symbols *at = g_ptr_array_index(names->symbols, i);

        if (!s || at->time <= time) {
            s = at;
        }
    }
    if (!s) {
        return -BTRAIL_ERR_END;
    }
    next = BTRAIL_UP_TO(s->entries->data, s->entries->len, struct symbol,
                        address, address);
    if (!next) {
        return -BTRAIL_ERR_END;
    }
    found = &g_array_index(s->entries, struct symbol, next - 1);
    for (i = next - 1; i && g_array_index(s->entries, struct symbol, i - 1)
         .address == found->address; i--) {
        found--;
    }
    set_symbol(symbol, s, found, next);
    return address < symbol->end ? 0 : -BTRAIL_ERR_END;
}

int btrail_names_symbol(const struct btrail_names *names, size_t i,
                        struct btrail_symbol *symbol)
{
    const struct symbol *found;
    guint piece, next;

    if (!names || !symbol) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (piece = 0; piece < names->symbols->len; piece++) {
        const struct symbols *s = g_ptr_array_index(names->symbols, piece);

        if (i >= s->entries->len) {
            i -= s->entries->len;
            continue;
        }
        found = &g_array_index(s->entries, struct symbol, i);
        for (next = i + 1; next < s->entries->len &&
             g_array_index(s->entries, struct symbol, next).address ==
             found->address; next++) {
            /* Others of the same place */
        }
        set_symbol(symbol, s, found, next);
        return 0;
    }
    return -BTRAIL_ERR_END;
}
