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

struct BranchTraceGdb {
    BranchTraceLive *live;
    uint64_t size;
    GArray *blocks;             /* that GDB reads, which takes many packets; */
    CPUState *blocks_cpu;       /* NULL if it does not */
    Notifier detached;
};

/* Packets come without anything that is ours. */
static BranchTraceGdb *get_gdb(void)
{
    return branch_trace_device_get(&error_abort)->gdb;
}

static void drop_blocks(BranchTraceGdb *gdb)
{
    g_clear_pointer(&gdb->blocks, g_array_unref);
    gdb->blocks_cpu = NULL;
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
    BranchTraceGdb *gdb = get_gdb();
    Error *err = NULL;

    drop_blocks(gdb);
    if (branch_trace_live_enable(gdb->live, user_ctx, gdb->size, &err)) {
        gdb_put_packet("OK");
    } else {
        put_error(err);
    }
}

static void handle_disable(GArray *params, void *user_ctx)
{
    BranchTraceGdb *gdb = get_gdb();
    Error *err = NULL;

    drop_blocks(gdb);
    if (branch_trace_live_disable(gdb->live, user_ctx, &err)) {
        gdb_put_packet("OK");
    } else {
        put_error(err);
    }
}

static void handle_size(GArray *params, void *user_ctx)
{
    BranchTraceGdb *gdb = get_gdb();

    if (!params->len) {
        gdb_put_packet("E22");
        return;
    }
    gdb->size = gdb_get_cmd_param(params, 0)->val_ull;
    if (gdb->size == GDB_SIZE) {
        gdb->size = DEFAULT_SIZE;
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
    BranchTraceLive *live = get_gdb()->live;
    g_autofree char *text = NULL;
    Error *err = NULL;
    uint64_t offset, length;
    size_t total;

    if (params->len < 2) {
        gdb_put_packet("E22");
        return;
    }
    if (!branch_trace_live_check(live, user_ctx, &err)) {
        put_error(err);
        return;
    }
    text = g_strdup_printf("<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
                           "<btrace-conf version=\"1.0\">\n"
                           "<bts size=\"0x%" PRIx64 "\"/>\n"
                           "</btrace-conf>\n", branch_trace_live_size(live));
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

static void put_blocks(BranchTraceGdb *gdb, uint64_t offset, uint64_t length)
{
    const BranchTraceBlock *first = (BranchTraceBlock *)gdb->blocks->data;
    uint64_t total = branch_trace_document_size(gdb->blocks->len);
    char text[MAX_READ];
    size_t n = branch_trace_document_read(first, gdb->blocks->len, offset, text,
                                          MIN(length, sizeof(text)));
    bool last = n == total - MIN(offset, total);

    put_part(last, text, n);
    if (last) {
        branch_trace_live_taken(gdb->live, gdb->blocks_cpu);
        drop_blocks(gdb);
    }
}

static void handle_read(GArray *params, void *user_ctx)
{
    BranchTraceGdb *gdb = get_gdb();
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
        drop_blocks(gdb);
        gdb->blocks = branch_trace_live_blocks(gdb->live, cpu, type, &err);
        if (!gdb->blocks) {
            put_error(err);
            return;
        }
        gdb->blocks_cpu = cpu;
    } else if (!gdb->blocks || gdb->blocks_cpu != cpu) {
        gdb_put_packet("E22");
        return;
    }
    put_blocks(gdb, offset, gdb_get_cmd_param(params, 2)->val_ul);
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
    BranchTraceGdb *gdb = container_of(notifier, BranchTraceGdb, detached);

    drop_blocks(gdb);
    branch_trace_live_end(gdb->live);
    gdb->size = DEFAULT_SIZE;
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

BranchTraceGdb *branch_trace_gdb_new(BranchTraceDevice *d)
{
    BranchTraceGdb *gdb = g_new0(BranchTraceGdb, 1);
    g_autoptr(GPtrArray) set_list = list_entries(sets, ARRAY_SIZE(sets));
    g_autoptr(GPtrArray) query_list = list_entries(queries,
                                                   ARRAY_SIZE(queries));

    gdb_extend_set_table(set_list);
    gdb_extend_query_table(query_list);
    gdb_extend_qsupported_features((char *)
        ";Qbtrace:bts+;Qbtrace:off+;Qbtrace-conf:bts:size+"
        ";qXfer:btrace:read+;qXfer:btrace-conf:read+");
    gdb->live = branch_trace_live_new(d);
    gdb->size = DEFAULT_SIZE;
    gdb->detached.notify = gdb_detached;
    gdb_add_detach_notifier(&gdb->detached);
    return gdb;
}
