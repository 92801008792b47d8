/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The description that a session writes into its file
 */

#include <fcntl.h>
#include <gio/gio.h>
#include <string.h>

#include "backtrail/trace.h"
#include "lib/agent/file.h"
#include "drain/session-description.h"
#include "trace-samples.h"

static struct btrail_shm_header header = {
    .vcpus = 2, .slabs = 16, .slab_size = 4096,
    .producer = BTRAIL_PRODUCER_TCG,
    .policy = BTRAIL_OVERFLOW_PAUSE,
    .privilege = BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL,
    .tick_ns = 1000, .tsc_hz = 2000000, .record_has = BTRAIL_RECORD_HAS_ICOUNT,
    .start_monotonic = 11, .start_realtime = 22,
    .capture = "the capture",
};

static struct btrail_store *open_store(const char *path)
{
    const struct btrail_store_options options = { .path = path };
    struct btrail_store *store;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    return store;
}

/* Returns META number @i of a file. */
static JsonNode *read_piece(const char *path, unsigned i)
{
    struct btrail_trace *trace;
    JsonNode *node;
    const char *text;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_trace_meta(trace, i, &text, NULL), ==, 0);
    node = btrail_json_parse_object(text);
    btrail_trace_close(trace);
    g_assert_nonnull(node);
    return node;
}

static void assert_texts(JsonObject *o, const char *name,
                         const char *first, const char *second)
{
    JsonArray *array = json_object_get_array_member(o, name);

    g_assert_nonnull(array);
    g_assert_cmpuint(json_array_get_length(array), ==, 2);
    g_assert_cmpstr(json_array_get_string_element(array, 0), ==, first);
    g_assert_cmpstr(json_array_get_string_element(array, 1), ==, second);
}

static void test_plain(void)
{
    const struct session_filter all = { 0 };
    const struct session_facts facts = {
        .header = &header, .filter = &all, .mode = "continuous",
    };
    char *path = sample_path();
    struct btrail_store *store = open_store(path);
    g_autoptr(JsonObject) meta = json_object_new();
    JsonObject *o, *start;
    JsonNode *node;

    g_assert_cmpint(session_describe(store, meta, &facts), ==, 0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    node = read_piece(path, 0);
    o = json_node_get_object(node);
    g_assert_cmpstr(btrail_json_string(o, "session"), ==, "the capture");
    g_assert_cmpstr(btrail_json_string(o, "producer"), ==, "tcg");
    g_assert_cmpstr(btrail_json_string(o, "overflow"), ==, "pause");
    g_assert_cmpstr(btrail_json_string(o, "privilege"), ==, "all");
    g_assert_cmpstr(btrail_json_string(o, "mode"), ==, "continuous");
    g_assert_false(json_object_get_boolean_member(o, "attached"));
    g_assert_cmpint(json_object_get_int_member(o, "tick_ns"), ==, 1000);
    g_assert_cmpint(json_object_get_int_member(o, "tsc_hz"), ==, 2000000);
    g_assert_cmpint(json_object_get_int_member(o, "buffer_size"), ==, 65536);
    g_assert_cmpint(json_object_get_int_member(o, "vcpus"), ==, 2);
    g_assert_true(json_object_get_boolean_member(o, "icount"));
    start = json_object_get_object_member(o, "start");
    g_assert_cmpint(json_object_get_int_member(start, "monotonic"), ==, 11);
    g_assert_cmpint(json_object_get_int_member(start, "realtime"), ==, 22);
    g_assert_false(json_object_has_member(o, "vcpu_filter"));
    g_assert_false(json_object_has_member(o, "cr3_filter"));
    g_assert_false(json_object_has_member(o, "processes"));
    json_node_unref(node);
    sample_remove(path);
}

static void test_filters(void)
{
    static const char *const processes[] = { "nginx", "7", NULL };
    static const uint32_t vcpus[] = { 0, 2 };
    static const uint64_t cr3s[] = { 0x1000, 0x2000 };
    const struct session_filter filter = {
        vcpus, 2, cr3s, 2, processes, BTRAIL_PRIVILEGE_USER,
    };
    const struct session_facts facts = {
        .header = &header, .filter = &filter, .drop = true,
        .mode = "last",
        .attached = true,
    };
    char *path = sample_path();
    struct btrail_store *store = open_store(path);
    g_autoptr(JsonObject) meta = json_object_new();
    JsonObject *o;
    JsonNode *node;

    json_object_set_string_member(meta, "session", "mine");
    json_object_set_string_member(meta, "vcpu_filter", "0,2-2");
    g_assert_cmpint(session_describe(store, meta, &facts), ==, 0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    node = read_piece(path, 0);
    o = json_node_get_object(node);
    g_assert_cmpstr(btrail_json_string(o, "session"), ==, "mine");
    g_assert_cmpstr(btrail_json_string(o, "overflow"), ==, "drop");
    g_assert_cmpstr(btrail_json_string(o, "privilege"), ==, "user");
    g_assert_cmpstr(btrail_json_string(o, "mode"), ==, "last");
    g_assert_true(json_object_get_boolean_member(o, "attached"));
    /* As it was written */
    g_assert_cmpstr(btrail_json_string(o, "vcpu_filter"), ==, "0,2-2");
    assert_texts(o, "cr3_filter", "0x1000", "0x2000");
    assert_texts(o, "processes", "nginx", "7");
    json_node_unref(node);
    sample_remove(path);
}

static void test_end(void)
{
    g_autoptr(GError) error = g_error_new(G_IO_ERROR, G_IO_ERROR_FAILED,
                                          "it has failed");
    char *path = sample_path();
    struct btrail_store *store = open_store(path);
    char *missing[] = { (char *)"a.b is missing: something", NULL };
    char *kernels[] = {
        (char *)"5.10.0", (char *)"6.1.0", (char *)":::", NULL,
    };
    JsonObject *o, *second;
    JsonNode *node;

    g_assert_cmpint(session_describe_end(store, BTRAIL_END_SHUTDOWN,
                                         NULL, 0, NULL, NULL, NULL),
                    ==, 0);
    g_assert_cmpint(session_describe_end(store, BTRAIL_END_MIGRATED,
                                         error, 3, "6.1.0", missing,
                                         kernels), ==, 0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    node = read_piece(path, 0);
    o = json_node_get_object(node);
    g_assert_false(json_object_has_member(o, "names"));
    o = json_object_get_object_member(o, "end");
    g_assert_cmpstr(btrail_json_string(o, "reason"), ==, "shutdown");
    g_assert_false(json_object_has_member(o, "error"));
    json_node_unref(node);
    node = read_piece(path, 1);
    o = json_object_get_object_member(json_node_get_object(node), "end");
    g_assert_cmpstr(btrail_json_string(o, "reason"), ==, "migrated");
    g_assert_cmpstr(btrail_json_string(o, "error"), ==, "it has failed");
    o = json_object_get_object_member(json_node_get_object(node), "names");
    g_assert_cmpstr(btrail_json_string(o, "kernel"), ==, "6.1.0");
    g_assert_cmpint(json_object_get_int_member(o, "snapshots"), ==, 3);
    g_assert_cmpstr(json_array_get_string_element(
        json_object_get_array_member(o, "missing"), 0), ==, missing[0]);
    second = json_array_get_object_element(
        json_object_get_array_member(o, "kernels"), 1);
    g_assert_cmpint(json_object_get_int_member(second, "number"), ==, 2);
    g_assert_cmpstr(btrail_json_string(second, "release"), ==, kernels[1]);
    g_assert_cmpint(json_array_get_length(
        json_object_get_array_member(o, "kernels")), ==, 2);
    json_node_unref(node);
    sample_remove(path);
}

/* Returns the id of a file of this capture, by this session. */
static void identify(const struct session_facts *facts,
                     const char *session, uint8_t *id, bool *anywhere)
{
    char *path = sample_path();
    struct btrail_store *store = open_store(path);
    g_autoptr(JsonObject) meta = json_object_new();
    struct btrail_file *file;

    if (session) {
        json_object_set_string_member(meta, "session", session);
    }
    *anywhere = false;
    g_assert_cmpint(session_identify(store, meta, facts, anywhere), ==,
                    0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpint(btrail_file_open(&file, open(path, O_RDONLY), false), ==,
                    0);
    memcpy(id, file->header.id, BTRAIL_ID_SIZE);
    btrail_file_close(file);
    sample_remove(path);
}

/* Agents that drain one capture write one trace, unless the names differ. */
static void test_identify(void)
{
    const struct session_filter all = { 0 };
    struct session_facts facts = { .header = &header, .filter = &all };
    uint8_t first[BTRAIL_ID_SIZE], id[BTRAIL_ID_SIZE];
    bool anywhere;

    identify(&facts, NULL, first, &anywhere);
    g_assert_false(anywhere);
    facts.attached = true;
    identify(&facts, "the capture", id, &anywhere);
    g_assert_true(anywhere);
    g_assert_cmpmem(id, sizeof(id), first, sizeof(first));
    identify(&facts, "another", id, &anywhere);
    g_assert_cmpint(memcmp(id, first, sizeof(id)), !=, 0);
    header.start_realtime++;
    identify(&facts, NULL, id, &anywhere);
    g_assert_cmpint(memcmp(id, first, sizeof(id)), !=, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-description/plain", test_plain);
    g_test_add_func("/session-description/filters", test_filters);
    g_test_add_func("/session-description/end", test_end);
    g_test_add_func("/session-description/identify", test_identify);
    return g_test_run();
}
