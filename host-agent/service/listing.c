/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The traces that are in a guest's folder: see listing.h
 */

#include <string.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "lib/agent/meta.h"
#include "lib/agent/parts.h"
#include "service/command.h"
#include "service/listing.h"
#include "service/message.h"
#include "util/hash.h"

/* A trace: its files are one, or parts */
struct listed {
    char *name;                 /* of part 0 */
    uint64_t bytes;
    int64_t changed;
};

static void clear_entry(gpointer p)
{
    struct listed *e = p;

    g_free(e->name);
}

static gint newest_first(gconstpointer a, gconstpointer b)
{
    const struct listed *x = a, *y = b;

    return x->changed != y->changed ? (x->changed < y->changed ? 1 : -1) :
           strcmp(x->name, y->name);
}

static GArray *gather(const struct folder *folder)
{
    g_autoptr(GArray) files = folder_list(folder);
    g_autoptr(GHashTable) by_name = g_hash_table_new(btrail_str_hash,
                                                     g_str_equal);
    GArray *entries = g_array_new(FALSE, TRUE, sizeof(struct listed));

    g_array_set_clear_func(entries, clear_entry);
    for (unsigned i = 0; i < files->len; i++) {
        const struct folder_file *f =
            &g_array_index(files, struct folder_file, i);
        g_autofree char *first =
            btrail_part_first(f->name, btrail_part_number(f->name));
        gpointer n = g_hash_table_lookup(by_name, first);
        struct listed *e;

        if (!n) {
            struct listed new = { .name = g_strdup(first) };

            g_array_append_val(entries, new);
            n = GUINT_TO_POINTER(entries->len);
            g_hash_table_insert(by_name, new.name, n);
        }
        e = &g_array_index(entries, struct listed, GPOINTER_TO_UINT(n) - 1);
        e->bytes += f->size;
        e->changed = MAX(e->changed, f->changed);
    }
    g_array_sort(entries, newest_first);
    return entries;
}

static void take_meta(JsonObject *json, JsonObject *meta)
{
    static const char *const copied[] = { "session", "owner" };
    static const char *const times[][2] = {
        { "start", "begin" }, { "end", "end" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(copied); i++) {
        const char *value = btrail_json_string(meta, copied[i]);

        if (value && strlen(value) <= COMMAND_MAX_TEXT &&
            g_utf8_validate(value, -1, NULL)) {
            json_object_set_string_member(json, copied[i], value);
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(times); i++) {
        JsonObject *t = btrail_json_object(meta, times[i][0]);
        gint64 real = t ? btrail_json_int(t, "realtime", 0) : 0;

        if (real > 0) {
            btrail_json_set_time(json, times[i][1], real / 1000000000);
        }
    }
}

static const char *look_into(JsonObject *json, const char *path)
{
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    uint64_t records = 0;
    g_autoptr(JsonObject) meta = NULL;
    unsigned i, bad;
    bool whole;

    if (btrail_trace_open_parts(&trace, path)) {
        return "unreadable";
    }
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        records += info.records;
    }
    json_object_set_int_member(json, "records", records);
    meta = btrail_meta_read(trace, &bad);
    take_meta(json, meta);
    whole = !btrail_trace_status(trace, &status) && status.complete &&
            !status.bad_chunks && !status.missing_chunks &&
            !status.missing_parts && !status.skipped_bytes &&
            !status.continued;
    btrail_trace_close(trace);
    return whole ? "whole" : "incomplete";
}

static JsonObject *describe_trace(const struct folder *folder,
                                  const struct listed *e, GHashTable *writing)
{
    JsonObject *json = btrail_json_new("s:file", e->name, "U:bytes", e->bytes,
                                       NULL);
    const char *state = "writing";

    if (!g_hash_table_contains(writing, e->name)) {
        g_autofree char *base = g_path_get_basename(e->name);
        g_autofree char *path = NULL;
        int fd = folder_enter(folder, e->name, NULL);

        state = "unreadable";
        if (fd >= 0) {
            path = g_strdup_printf("/proc/self/fd/%d/%s", fd, base);
            state = look_into(json, path);
            close(fd);
        }
    }
    json_object_set_string_member(json, "state", state);
    if (!json_object_has_member(json, "end")) {
        btrail_json_set_time(json, "changed", e->changed);
    }
    return json;
}

JsonObject *service_listing(const struct folder *folder,
                            GHashTable *writing)
{
    JsonArray *traces = json_array_new();
    g_autoptr(GArray) entries = gather(folder);
    JsonObject *json = btrail_json_new("s:folder", folder->path, NULL);
    struct message_room room;
    unsigned n;

    message_room_init(&room);
    message_room_take(&room, json);
    for (n = 0; n < entries->len && n < LISTING_MAX; n++) {
        g_autoptr(JsonObject) trace = describe_trace(
            folder, &g_array_index(entries, struct listed, n), writing);

        /* Long names take it, and commas in them. */
        if (!message_room_take(&room, trace)) {
            break;
        }
        json_array_add_object_element(traces, g_steal_pointer(&trace));
    }
    json_object_set_array_member(json, "traces", traces);
    if (entries->len > n) {
        json_object_set_int_member(json, "older", entries->len - n);
    }
    return json;
}
