/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a trace: processes, mappings and kernel symbols at a time
 */

#include <stdlib.h>
#include <string.h>

#include "backtrail/words.h"
#include "lib/agent/meta.h"
#include "lib/agent/names-private.h"
#include "lib/agent/trace-files.h"
#include "lib/internal/kernel-ends.h"
#include "lib/internal/kernel-symbols.h"
#include "lib/internal/syscall-table.h"
#include "util/search.h"

/*
 * The most memory of snapshots and symbols, if the budget of the trace has it;
 * later ones are left out.
 */
#define MEMORY_MAX      (1ull << 30)

struct btrail_names {
    struct btrail_budget *budget;
    uint64_t charged;           /* bytes taken from it */
    struct btrail_lives *lives;
    struct btrail_kernel_symbols *symbols;
    /* The same on the guest's own word, for where the others have nothing */
    struct btrail_lives *told_lives;
    struct btrail_kernel_symbols *told_symbols;
    uint64_t symbols_memory;
    GPtrArray *syscalls;
    GArray *ends;               /* times without a kernel, or NULL */
    bool unfiltered;            /* the trace has all that the vCPUs did */
    bool all_vcpus;
    uint64_t tick;              /* how much later than its time a record is */
    uint64_t cut;               /* nothing is known from then on */
};

static uint64_t memory(const struct btrail_names *n)
{
    return btrail_lives_memory(n->lives) +
           btrail_lives_memory(n->told_lives) + n->symbols_memory;
}

void btrail_names_close(struct btrail_names *n)
{
    if (n) {
        btrail_budget_give(n->budget, n->charged);
        btrail_budget_unref(n->budget);
        btrail_lives_free(n->lives);
        btrail_lives_free(n->told_lives);
        btrail_kernel_symbols_free(n->symbols);
        btrail_kernel_symbols_free(n->told_symbols);
        g_ptr_array_free(n->syscalls, TRUE);
        g_clear_pointer(&n->ends, g_array_unref);
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
    const char *privilege = btrail_json_string(meta, "privilege");
    int all = BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL;

    n->tick = btrail_meta_tick(meta);
    n->unfiltered = !bad && btrail_privilege_value(privilege) == all &&
                    !json_object_has_member(meta, "cr3_filter") &&
                    !json_object_has_member(meta, "processes");
    n->all_vcpus = !bad && !json_object_has_member(meta, "vcpu_filter");
}

/* A piece of sideband that has names */
struct names_piece {
    uint64_t time;
    unsigned number;
    uint16_t kind;
};

static gint by_time(gconstpointer p, gconstpointer q)
{
    const struct names_piece *a = p, *b = q;

    return BTRAIL_COMPARE(a->time, b->time) ?:
           BTRAIL_COMPARE(a->kind, b->kind) ?:
           BTRAIL_COMPARE(a->number, b->number);
}

static int list_pieces(const struct btrail_trace *trace, GArray *pieces)
{
    struct btrail_sideband_info info;
    unsigned i;
    int ret;

    for (i = 0; !(ret = btrail_trace_sideband(trace, i, &info, NULL)); i++) {
        struct names_piece piece = { info.time, i, info.kind };

        if (info.kind == BTRAIL_SIDEBAND_SYMBOLS ||
            info.kind == BTRAIL_SIDEBAND_SYSCALLS ||
            info.kind == BTRAIL_SIDEBAND_PROCESSES ||
            info.kind == BTRAIL_SIDEBAND_TOLD_PROCESSES ||
            info.kind == BTRAIL_SIDEBAND_TOLD_SYMBOLS ||
            info.kind == BTRAIL_SIDEBAND_HELD) {
            g_array_append_val(pieces, piece);
        }
    }
    g_array_sort(pieces, by_time);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* A ring copies pieces to newer parts, so the same piece can come twice. */
static bool is_copy(const struct btrail_sideband_info *info, const void *data,
                    const struct btrail_sideband_info *info_before,
                    const void *before)
{
    return before && info_before->time == info->time &&
           info_before->kind == info->kind &&
           info_before->kernel == info->kernel &&
           info_before->size == info->size &&
           !memcmp(data, before, info->size);
}

/* May more be read?  What was read is charged. */
static bool has_room(struct btrail_names *n)
{
    uint64_t now = memory(n);

    if (now >= MEMORY_MAX ||
        !btrail_budget_take(n->budget, now - n->charged)) {
        return false;
    }
    n->charged = now;
    return true;
}

static void add_piece(struct btrail_names *n,
                      const struct btrail_sideband_info *info,
                      const void *data)
{
    switch (info->kind) {
    case BTRAIL_SIDEBAND_SYMBOLS:
    case BTRAIL_SIDEBAND_TOLD_SYMBOLS:
        n->symbols_memory += btrail_kernel_symbols_add(
            info->kind == BTRAIL_SIDEBAND_SYMBOLS ? n->symbols :
            n->told_symbols, info->kernel, info->time, data, info->size);
        break;
    case BTRAIL_SIDEBAND_HELD:
        btrail_kernel_symbols_held(n->symbols, info->kernel, info->time);
        break;
    case BTRAIL_SIDEBAND_SYSCALLS:
        n->symbols_memory += btrail_syscall_tables_add(
            n->syscalls, info->kernel, info->time, data, info->size);
        break;
    default:
        btrail_lives_add(info->kind == BTRAIL_SIDEBAND_PROCESSES ? n->lives :
                         n->told_lives, info->kernel, data, info->size);
        break;
    }
}

static int read_pieces(struct btrail_names *n,
                       const struct btrail_trace *trace, const GArray *pieces)
{
    struct btrail_sideband_info info_before = { 0 };
    void *before = NULL;
    guint i;
    int ret = 0;

    for (i = 0; i < pieces->len && has_room(n); i++) {
        const struct names_piece *p =
            &g_array_index(pieces, struct names_piece, i);
        struct btrail_sideband_info info = { 0 };
        void *data;

        ret = btrail_trace_sideband(trace, p->number, &info, &data);
        if (ret == -BTRAIL_ERR_CORRUPT) {
            if (p->kind == BTRAIL_SIDEBAND_SYMBOLS) {
                btrail_kernel_symbols_lost(n->symbols, info.kernel, p->time);
            }
            ret = 0;
            continue;
        }
        if (ret) {
            break;
        }
        if (is_copy(&info, data, &info_before, before)) {
            free(data);
            continue;
        }
        add_piece(n, &info, data);
        free(before);
        before = data;
        info_before = info;
    }
    if (!ret && i < pieces->len) {
        n->cut = g_array_index(pieces, struct names_piece, i).time;
    }
    free(before);
    return ret;
}

/* Without room for more, names are left out from there on. */
static void add_compiled(struct btrail_names *n)
{
    bool room = btrail_lives_version(n->told_lives, 0);

    for (unsigned i = 0; room && btrail_lives_version(n->lives, i); i++) {
        uint64_t begin = btrail_lives_add_compiled(n->lives, i, n->told_lives);

        room = has_room(n);
        n->cut = room ? n->cut : MIN(n->cut, begin);
    }
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
    n = g_new0(struct btrail_names, 1);
    n->budget = btrail_budget_ref(btrail_trace_budget(trace));
    n->lives = btrail_lives_new(false);
    n->told_lives = btrail_lives_new(true);
    n->symbols = btrail_kernel_symbols_new();
    n->told_symbols = btrail_kernel_symbols_new();
    n->syscalls = btrail_syscall_tables_new();
    n->cut = UINT64_MAX;
    read_meta(n, trace);
    n->ends = btrail_trace_kernel_ends(trace);
    if (n->ends) {
        g_array_ref(n->ends);
    }
    pieces = g_array_new(FALSE, FALSE, sizeof(struct names_piece));
    ret = list_pieces(trace, pieces);
    if (!ret) {
        ret = read_pieces(n, trace, pieces);
    }
    g_array_free(pieces, TRUE);
    if (ret) {
        btrail_names_close(n);
        return ret;
    }
    btrail_lives_complete(n->lives);
    btrail_lives_complete(n->told_lives);
    add_compiled(n);
    btrail_kernel_symbols_complete(n->symbols, n->tick, n->cut);
    btrail_kernel_symbols_complete(n->told_symbols, n->tick, n->cut);
    btrail_syscall_tables_complete(n->syscalls);
    *names = n;
    return 0;
}

const struct btrail_process *
btrail_names_version(const struct btrail_names *n, unsigned i)
{
    return btrail_lives_version(n->lives, i);
}

uint64_t btrail_names_cut(const struct btrail_names *names)
{
    return names->cut;
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

static const struct btrail_lives *lives_of(const struct btrail_names *names,
                                           bool told)
{
    return told ? names->told_lives : names->lives;
}

uint64_t btrail_names_root(const struct btrail_names *names, bool told,
                           uint64_t cr3)
{
    return btrail_lives_root(lives_of(names, told), cr3);
}

struct btrail_life *btrail_names_life(const struct btrail_names *names,
                                      bool told, uint64_t root, uint64_t from,
                                      uint64_t to)
{
    return to < names->cut ?
           btrail_lives_find(lives_of(names, told), root, from, to) : NULL;
}

const struct btrail_process *
btrail_names_of_pid(const struct btrail_names *names, uint64_t time,
                    uint64_t cr3, uint32_t pid)
{
    const struct btrail_life *life = time < names->cut ?
        btrail_lives_of_pid(names->lives, time, cr3, pid) : NULL;

    return life ? btrail_life_process(life, time) : NULL;
}

const struct btrail_process *
btrail_names_last_of_pid(const struct btrail_names *names, uint64_t time,
                         uint32_t kernel, uint32_t pid, bool *gone)
{
    const struct btrail_life *life = time < names->cut ?
        btrail_lives_last_of_pid(names->lives, time, kernel, pid, gone) : NULL;

    return life ? btrail_life_process(life, time) : NULL;
}

enum btrail_certainty
btrail_names_process_until(const struct btrail_names *names, uint64_t time,
                           uint64_t until, uint64_t cr3,
                           const struct btrail_process **process)
{
    enum btrail_certainty certainty;

    *process = NULL;
    if (time >= names->cut) {
        return BTRAIL_UNKNOWN;
    }
    certainty = btrail_lives_process(names->lives, time, until, cr3, process);
    return certainty != BTRAIL_UNKNOWN ? certainty :
           btrail_lives_process(names->told_lives, time, until, cr3, process);
}

/*
 * The symbols that were found in memory, or else those that the guest has
 * said
 */
static const struct btrail_kernel_symbols *
symbols_of(const struct btrail_names *names)
{
    return btrail_kernel_symbols_any(names->symbols) ? names->symbols :
           names->told_symbols;
}

enum btrail_certainty
btrail_names_process(const struct btrail_names *names, uint64_t time,
                     uint64_t cr3, const struct btrail_process **process)
{
    uint64_t tick = names ? names->tick : 0;

    if (process) {
        *process = NULL;
    }
    return process && names &&
           !btrail_kernel_ends_at(names->ends, time, NULL, NULL) ?
           btrail_names_process_until(
        names, time, time > UINT64_MAX - tick ? UINT64_MAX : time + tick, cr3,
        process) : BTRAIL_UNKNOWN;
}

void btrail_names_era(const struct btrail_names *names, uint32_t kernel,
                      uint64_t time, struct btrail_symbol_era *era)
{
    uint64_t from = 0, last = UINT64_MAX;

    if (!kernel && btrail_kernel_ends_at(names->ends, time, &from, &last)) {
        *era = (struct btrail_symbol_era) { 0, 0, UINT32_MAX, from, last };
        return;
    }
    btrail_kernel_symbols_era(symbols_of(names), kernel, time, era);
    era->from = MAX(era->from, from);
    era->last = MIN(era->last, last);
}

uint32_t btrail_names_kernel(const struct btrail_names *names, uint64_t time)
{
    return btrail_kernel_symbols_kernel(symbols_of(names), time);
}

uint32_t btrail_names_owns(const struct btrail_names *names)
{
    return btrail_kernel_symbols_owns(symbols_of(names));
}

int btrail_names_era_symbol(const struct btrail_names *names, uint32_t era,
                            uint64_t address, struct btrail_symbol *symbol)
{
    return btrail_kernel_symbols_find(symbols_of(names), era, address, symbol);
}

int btrail_names_kernel_symbol(const struct btrail_names *names,
                               uint64_t time, uint64_t address,
                               struct btrail_symbol *symbol)
{
    struct btrail_symbol_era era;

    if (!names || !symbol) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    btrail_names_era(names, 0, time, &era);
    return btrail_names_era_symbol(names, era.number, address, symbol);
}

int btrail_names_syscall(const struct btrail_names *names, uint32_t kernel,
                         uint64_t time, uint64_t address,
                         struct btrail_syscall *syscall)
{
    if (!names || !syscall) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (!kernel) {
        if (btrail_kernel_ends_at(names->ends, time, NULL, NULL)) {
            return -BTRAIL_ERR_END;
        }
        kernel = btrail_names_kernel(names, time);
    }
    return btrail_syscall_tables_find(names->syscalls, kernel, time, address,
                                      syscall);
}

int btrail_names_symbol_era(const struct btrail_names *names, size_t i,
                            struct btrail_symbol *symbol,
                            struct btrail_symbol_era *era)
{
    return btrail_kernel_symbols_get(symbols_of(names), i, symbol, era);
}

int btrail_names_symbol(const struct btrail_names *names, size_t i,
                        struct btrail_symbol *symbol)
{
    return names && symbol ?
           btrail_names_symbol_era(names, i, symbol, NULL) :
           -BTRAIL_ERR_ARGUMENT;
}
