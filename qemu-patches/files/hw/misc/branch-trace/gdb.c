/*
 * Branch trace: GDB's packets for "record btrace"
 *
 * See "General Query Packets" and "Branch Trace Format" in GDB's manual.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "gdbstub/commands.h"
#include "gdbstub/detach.h"
#include "qapi/error.h"
#include "qemu/notify.h"
#include "qemu/units.h"
#include "blocks-document.h"
#include "gdb.h"
#include "live.h"

/* What is kept of each vCPU, unless GDB sets it: a million records */
#define DEFAULT_SIZE    (24 * MiB)

/* GDB sets it in any case, to this if the user has not said anything. */
#define GDB_SIZE        (64 * KiB)

/* More than GDB reads at once */
#define MAX_READ        (16 * KiB)

static uint64_t size = DEFAULT_SIZE;

/* The blocks that GDB reads, which takes many packets; NULL if it does not. */
static GArray *blocks;
static CPUState *blocks_cpu;

static void drop_blocks(void)
{
    g_clear_pointer(&blocks, g_array_unref);
    blocks_cpu = NULL;
}

/* Consumes @err.  GDB prints the text, or tries something else. */
static void put_error(Error *err)
{
    g_autofree char *text = g_strdup_printf("E.%s", error_get_pretty(err));
    char *p;

    /* A packet must not have these, and GDB prints them as they are. */
    for (p = text; *p; p++) {
        if (!g_ascii_isprint(*p) || strchr("#$}*", *p)) {
            *p = '?';
        }
    }
    gdb_put_packet(text);
    error_free(err);
}

static void handle_enable(GArray *params, void *user_ctx)
{
    Error *err = NULL;

    drop_blocks();
    if (branch_trace_live_enable(user_ctx, size, &err)) {
        gdb_put_packet("OK");
    } else {
        put_error(err);
    }
}

static void handle_disable(GArray *params, void *user_ctx)
{
    Error *err = NULL;

    drop_blocks();
    if (branch_trace_live_disable(user_ctx, &err)) {
        gdb_put_packet("OK");
    } else {
        put_error(err);
    }
}

static void handle_size(GArray *params, void *user_ctx)
{
    if (!params->len) {
        gdb_put_packet("E22");
        return;
    }
    size = gdb_get_cmd_param(params, 0)->val_ull;
    if (size == GDB_SIZE) {
        size = DEFAULT_SIZE;
    }
    gdb_put_packet("OK");
}

/* A part of a document: "m", or "l" if it is the last one */
static void put_part(bool last, const char *text, size_t length)
{
    g_autofree char *packet = g_strdup_printf("%c%.*s", last ? 'l' : 'm',
                                              (int)length, text);

    gdb_put_packet(packet);
}

static void handle_read_conf(GArray *params, void *user_ctx)
{
    g_autofree char *text = NULL;
    Error *err = NULL;
    uint64_t offset, length;
    size_t total;

    if (params->len < 2) {
        gdb_put_packet("E22");
        return;
    }
    if (!branch_trace_live_check(user_ctx, &err)) {
        put_error(err);
        return;
    }
    text = g_strdup_printf("<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
                           "<btrace-conf version=\"1.0\">\n"
                           "<bts size=\"0x%" PRIx64 "\"/>\n"
                           "</btrace-conf>\n", branch_trace_live_size());
    total = strlen(text);
    offset = MIN(gdb_get_cmd_param(params, 0)->val_ul, total);
    length = MIN(gdb_get_cmd_param(params, 1)->val_ul, total - offset);
    put_part(offset + length == total, text + offset, length);
}

/* @annex is followed by the rest of the packet. */
static bool parse_type(const char *annex, BranchTraceLiveType *type)
{
    static const char *const names[] = {
        [BRANCH_TRACE_LIVE_ALL] = "all:",
        [BRANCH_TRACE_LIVE_NEW] = "new:",
        [BRANCH_TRACE_LIVE_DELTA] = "delta:",
    };
    unsigned i;

    for (i = 0; i < ARRAY_SIZE(names); i++) {
        if (g_str_has_prefix(annex, names[i])) {
            *type = i;
            return true;
        }
    }
    return false;
}

static void put_blocks(CPUState *cpu, uint64_t offset, uint64_t length)
{
    const BranchTraceBlock *first = (BranchTraceBlock *)blocks->data;
    uint64_t total = branch_trace_document_size(blocks->len);
    char text[MAX_READ];
    size_t n = branch_trace_document_read(first, blocks->len, offset, text,
                                          MIN(length, sizeof(text)));
    bool last = n == total - MIN(offset, total);

    put_part(last, text, n);
    if (last) {
        branch_trace_live_taken(cpu);
        drop_blocks();
    }
}

static void handle_read(GArray *params, void *user_ctx)
{
    CPUState *cpu = user_ctx;
    BranchTraceLiveType type;
    Error *err = NULL;
    uint64_t offset;

    if (params->len < 3 ||
        !parse_type(gdb_get_cmd_param(params, 0)->data, &type)) {
        gdb_put_packet("E22");
        return;
    }
    offset = gdb_get_cmd_param(params, 1)->val_ul;
    if (!offset) {
        drop_blocks();
        blocks = branch_trace_live_blocks(cpu, type, &err);
        if (!blocks) {
            put_error(err);
            return;
        }
        blocks_cpu = cpu;
    } else if (!blocks || blocks_cpu != cpu) {
        gdb_put_packet("E22");
        return;
    }
    put_blocks(cpu, offset, gdb_get_cmd_param(params, 2)->val_ul);
}

static const GdbCmdParseEntry sets[] = {
    {
        .handler = handle_enable,
        .cmd = "btrace:bts",
        .need_cpu_context = true,
    },
    {
        .handler = handle_disable,
        .cmd = "btrace:off",
        .need_cpu_context = true,
    },
    {
        .handler = handle_size,
        .cmd = "btrace-conf:bts:size=",
        .cmd_startswith = true,
        .schema = "L0",
    },
};

static const GdbCmdParseEntry queries[] = {
    {
        .handler = handle_read_conf,
        .cmd = "Xfer:btrace-conf:read::",
        .cmd_startswith = true,
        .schema = "l,l0",
        .need_cpu_context = true,
    },
    {
        .handler = handle_read,
        .cmd = "Xfer:btrace:read:",
        .cmd_startswith = true,
        .schema = "s:l,l0",
        .need_cpu_context = true,
    },
};

/* Nothing is traced for a GDB that has gone. */
static void gdb_detached(Notifier *notifier, void *opaque)
{
    drop_blocks();
    branch_trace_live_end();
    size = DEFAULT_SIZE;
}

static GPtrArray *list_entries(const GdbCmdParseEntry *entries, unsigned n)
{
    GPtrArray *list = g_ptr_array_new();
    unsigned i;

    for (i = 0; i < n; i++) {
        g_ptr_array_add(list, (gpointer)&entries[i]);
    }
    return list;
}

void branch_trace_gdb_init(void)
{
    static Notifier detached = { .notify = gdb_detached };
    g_autoptr(GPtrArray) set_list = list_entries(sets, ARRAY_SIZE(sets));
    g_autoptr(GPtrArray) query_list = list_entries(queries,
                                                   ARRAY_SIZE(queries));

    gdb_extend_set_table(set_list);
    gdb_extend_query_table(query_list);
    gdb_extend_qsupported_features((char *)
        ";Qbtrace:bts+;Qbtrace:off+;Qbtrace-conf:bts:size+"
        ";qXfer:btrace:read+;qXfer:btrace-conf:read+");
    gdb_add_detach_notifier(&detached);
}
