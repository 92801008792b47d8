/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of a guest that stands still: see frozen-names.h
 */

#include "pt/frozen-names.h"

/* Of what waits to be written, one part of so many is left to others. */
#define SPARE_PART      4
/* So long a piece waits for room. */
#define PATIENCE_US     10000000
#define STEP_US         1000

struct frozen_names {
    struct output *output;
    struct scanner *scanner;    /* NULL: the memory cannot be read */
    struct btrail_budget *budget;
    uint64_t left_out;
};

static void write_packed(struct frozen_names *n, const void *packed,
                         size_t size)
{
    gint64 until = g_get_monotonic_time() + PATIENCE_US;

    while (!btrail_budget_take(n->budget, size + BTRAIL_BUDGET_ENTRY)) {
        if (g_get_monotonic_time() > until) {
            n->left_out++;
            return;
        }
        g_usleep(STEP_US);
    }
    output_packed(n->output, g_memdup2(packed, size), size, n->budget);
}

static void take_piece(void *opaque, const struct scanner_piece *piece)
{
    write_packed(opaque, piece->packed, piece->packed_size);
}

/* Nobody asks for what was sent before, */
static void take_resending(void *opaque, uint64_t nested, bool begin)
{
}

/* the result says it, */
static void take_kernel(void *opaque, uint64_t nested, const char *release,
                        char **missing)
{
}

/* and no producer looks for tasks. */
static void take_tasks(void *opaque, uint64_t nested,
                       const struct btrail_tasks *tasks)
{
}

static struct frozen_names *begin(struct output *output,
                                  const struct guest_memory_files *files,
                                  bool waits)
{
    static const struct scanner_ops ops = {
        .piece = take_piece, .resending = take_resending,
        .kernel = take_kernel, .tasks = take_tasks,
    };
    struct frozen_names *n = g_new0(struct frozen_names, 1);

    n->output = output;
    n->budget = btrail_budget_new_fixed(BTRAIL_BUDGET_GUEST, SPARE_PART);
    if (files->reason == BTRAIL_MEMORY_SHARED) {
        n->scanner = scanner_new(files, waits, NULL, n->budget, &ops, n);
    }
    return n;
}

struct frozen_names *frozen_names_begin(struct output *output,
                                        const struct guest_memory_files *files)
{
    return begin(output, files, false);
}

void frozen_names_see(struct frozen_names *n, uint64_t cr3)
{
    if (n->scanner && scanner_report_cr3(n->scanner, cr3)) {
        scanner_request(n->scanner);
    }
}

uint64_t frozen_names_end(struct frozen_names *n, struct scanner_result *result)
{
    uint64_t left_out;

    if (n->scanner) {
        scanner_finish(n->scanner, result);
    } else {
        *result = (struct scanner_result){
            .why = g_strdup("the guest's memory cannot be read"),
        };
    }
    left_out = n->left_out;
    btrail_budget_unref(n->budget);
    g_free(n);
    return left_out;
}

uint64_t frozen_names_write(struct output *output,
                            const struct guest_memory_files *files,
                            struct scanner_result *result)
{
    /* It looks once, and then once more at its end. */
    return frozen_names_end(begin(output, files, true), result);
}
