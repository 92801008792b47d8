/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The list of traces of a guest's folder: their states, order and number
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/json.h"
#include "service/listing.h"
#include "service/message.h"
#include "trace-samples.h"

#define CHUNKS  10
/* Of both vCPUs */
#define RECORDS (2 * CHUNKS * SAMPLE_CHUNK_RECORDS)

/* A folder of a guest, beside another one that is none of its business */
struct rig {
    char *scratch;
    char *path;
    struct folder *folder;
    GHashTable *writing;
    JsonObject *listing;
};

static void setup(struct rig *r)
{
    GError *error = NULL;
    g_autofree char *outside = NULL;

    r->scratch = g_dir_make_tmp("backtrail-XXXXXX", &error);
    g_assert_no_error(error);
    r->path = g_build_filename(r->scratch, "guest", NULL);
    outside = g_build_filename(r->scratch, "outside", NULL);
    g_assert_cmpint(g_mkdir(outside, 0700), ==, 0);
    r->folder = folder_open(r->path, &error);
    g_assert_no_error(error);
    r->writing = g_hash_table_new(g_str_hash, g_str_equal);
    r->listing = NULL;
}

static void remove_all(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;

    g_assert_nonnull(dir);
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(path, name, NULL);

        if (g_file_test(file, G_FILE_TEST_IS_DIR) &&
            !g_file_test(file, G_FILE_TEST_IS_SYMLINK)) {
            remove_all(file);
        } else {
            g_assert_cmpint(g_unlink(file), ==, 0);
        }
    }
    g_dir_close(dir);
    g_assert_cmpint(g_rmdir(path), ==, 0);
}

static void clear(struct rig *r)
{
    g_clear_pointer(&r->listing, json_object_unref);
    g_hash_table_unref(r->writing);
    folder_free(r->folder);
    remove_all(r->scratch);
    g_free(r->path);
    g_free(r->scratch);
}

static char *path_of(const struct rig *r, const char *name)
{
    char *path = g_build_filename(r->path, name, NULL);
    g_autofree char *folder = g_path_get_dirname(path);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    return path;
}

/* Seconds since 1970 */
static void set_changed(const struct rig *r, const char *name, gint64 seconds)
{
    g_autofree char *path = path_of(r, name);
    const struct timespec times[2] = {
        { .tv_sec = seconds }, { .tv_sec = seconds },
    };

    g_assert_cmpint(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW),
                    ==, 0);
}

static void set_all_changed(const struct rig *r, gint64 seconds)
{
    GDir *dir = g_dir_open(r->path, 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        set_changed(r, name, seconds);
    }
    g_dir_close(dir);
}

static void add_sample(const struct rig *r, const char *name)
{
    g_autofree char *path = path_of(r, name);

    sample_write(path, CHUNKS);
}

static void add_text(const struct rig *r, const char *name, const char *text)
{
    g_autofree char *path = path_of(r, name);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* A trace with nothing but descriptions, a list that ends with NULL */
static void add_described(const struct rig *r, const char *name,
                          const char *const *metas)
{
    g_autofree char *path = path_of(r, name);
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (; *metas; metas++) {
        g_assert_cmpint(btrail_writer_meta(w, *metas, strlen(*metas)), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static uint64_t size_of(const struct rig *r, const char *name)
{
    g_autofree char *path = path_of(r, name);
    struct stat st;

    g_assert_cmpint(stat(path, &st), ==, 0);
    return st.st_size;
}

/* Of all whose names begin so */
static uint64_t sizes_of(const struct rig *r, const char *prefix)
{
    GDir *dir = g_dir_open(r->path, 0, NULL);
    uint64_t sum = 0;
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        sum += g_str_has_prefix(name, prefix) ? size_of(r, name) : 0;
    }
    g_dir_close(dir);
    return sum;
}

static JsonArray *list(struct rig *r)
{
    g_clear_pointer(&r->listing, json_object_unref);
    r->listing = service_listing(r->folder, r->writing);
    return json_object_get_array_member(r->listing, "traces");
}

/* The only one of this name */
static JsonObject *find(JsonArray *traces, const char *file)
{
    JsonObject *found = NULL;
    unsigned i;

    for (i = 0; i < json_array_get_length(traces); i++) {
        JsonObject *t = json_array_get_object_element(traces, i);

        if (!strcmp(btrail_json_string(t, "file"), file)) {
            g_assert_null(found);
            found = t;
        }
    }
    g_assert_nonnull(found);
    return found;
}

static void expect(JsonArray *traces, const char *file, const char *state,
                   gint64 records)
{
    JsonObject *t = find(traces, file);

    g_assert_cmpstr(btrail_json_string(t, "state"), ==, state);
    g_assert_cmpint(btrail_json_int(t, "records", -1), ==, records);
}

static void test_empty(void)
{
    struct rig r;

    setup(&r);
    g_assert_cmpuint(json_array_get_length(list(&r)), ==, 0);
    g_assert_false(json_object_has_member(r.listing,
                                          "older"));
    g_assert_cmpstr(btrail_json_string(r.listing,
                                       "folder"), ==, r.path);
    clear(&r);
}

/* What is whole, cut off, or no trace at all */
static void test_states(void)
{
    struct rig r;
    JsonArray *traces;
    g_autofree char *cut = NULL;

    setup(&r);
    add_sample(&r, "whole.btrail");
    add_sample(&r, "boot/first.btrail");
    add_sample(&r, "cut.btrail");
    cut = path_of(&r, "cut.btrail");
    g_assert_cmpint(truncate(cut, size_of(&r, "cut.btrail") - 1), ==, 0);
    add_text(&r, "empty.btrail", "");
    add_text(&r, "text.btrail", "This is no trace.\n");
    traces = list(&r);
    g_assert_cmpuint(json_array_get_length(traces), ==, 5);
    expect(traces, "whole.btrail", "whole", RECORDS);
    expect(traces, "boot/first.btrail", "whole", RECORDS);
    expect(traces, "cut.btrail", "incomplete", RECORDS);
    expect(traces, "empty.btrail", "unreadable", -1);
    expect(traces, "text.btrail", "unreadable", -1);
    g_assert_cmpint(btrail_json_int(find(traces, "whole.btrail"), "bytes", 0),
                    ==, size_of(&r, "whole.btrail"));
    g_assert_cmpint(btrail_json_int(find(traces, "text.btrail"), "bytes", 0),
                    ==, 18);
    clear(&r);
}

/* What somebody else has put there */
static void test_foreign(void)
{
    struct rig r;
    JsonArray *traces;
    g_autofree char *path = NULL;

    setup(&r);
    add_text(&r, "notes.txt", "x");
    add_text(&r, "btrail", "x");
    add_text(&r, ".guest", "x");
    add_text(&r, ".hidden.btrail", "x");
    add_sample(&r, ".ring-1/1.btrail");
    path = path_of(&r, "fifo.btrail");
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    g_free(g_steal_pointer(&path));
    path = path_of(&r, "folder.btrail/x");
    g_assert_cmpuint(json_array_get_length(list(&r)), ==, 0);
    /* Names need not be text; what is sent is, see message.h. */
    add_text(&r, "\xff.btrail", "x");
    traces = list(&r);
    g_assert_cmpuint(json_array_get_length(traces), ==, 1);
    expect(traces, "\xff.btrail", "unreadable", -1);
    clear(&r);
}

/* Nothing is looked at through them. */
static void test_links(void)
{
    struct rig r;
    JsonArray *traces;
    static const char *const links[][2] = {
        { "../outside/secret.btrail", "link.btrail" },
        { "../outside", "way" },
        { "real.btrail", "other.btrail" },
        { "nowhere", "broken.btrail" },
    };
    unsigned i;

    setup(&r);
    add_sample(&r, "../outside/secret.btrail");
    add_sample(&r, "real.btrail");
    for (i = 0; i < G_N_ELEMENTS(links); i++) {
        g_autofree char *path = path_of(&r, links[i][1]);

        g_assert_cmpint(symlink(links[i][0], path), ==, 0);
    }
    traces = list(&r);
    g_assert_cmpuint(json_array_get_length(traces), ==, 1);
    expect(traces, "real.btrail", "whole", RECORDS);
    clear(&r);
}

/* It is not opened: it would seem to be damaged. */
static void test_writing(void)
{
    struct rig r;
    JsonArray *traces;

    setup(&r);
    add_sample(&r, "done.btrail");
    add_text(&r, "now.btrail", "BTRAIL");
    add_text(&r, "now.1.btrail", "BT");
    g_hash_table_add(r.writing, (char *)"now.btrail");
    traces = list(&r);
    g_assert_cmpuint(json_array_get_length(traces), ==, 2);
    expect(traces, "done.btrail", "whole", RECORDS);
    expect(traces, "now.btrail", "writing", -1);
    g_assert_cmpint(btrail_json_int(find(traces, "now.btrail"), "bytes", 0),
                    ==, 8);
    clear(&r);
}

/* Files of one trace are one entry, of all their bytes and the newest time. */
static void test_parts(void)
{
    struct rig r;
    JsonArray *traces;
    JsonObject *row;
    const struct btrail_writer_options options = { .part_size = 1500 };
    g_autofree char *first = NULL, *second = NULL, *third = NULL;

    setup(&r);
    first = path_of(&r, "row.btrail");
    second = path_of(&r, "row.1.btrail");
    third = path_of(&r, "row.2.btrail");
    sample_write_with(first, CHUNKS, &options);
    g_assert_true(g_file_test(third, G_FILE_TEST_IS_REGULAR));
    /* These are no numbers of parts. */
    add_sample(&r, "row.01.btrail");
    add_sample(&r, "row1.btrail");
    add_sample(&r, "2.btrail");
    set_all_changed(&r, 1000);
    set_changed(&r, "row.1.btrail", 3000);
    set_changed(&r, "row1.btrail", 2000);
    traces = list(&r);
    g_assert_cmpuint(json_array_get_length(traces), ==, 4);
    g_assert_true(json_array_get_object_element(traces, 0) ==
                  find(traces, "row.btrail"));
    g_assert_cmpint(btrail_json_int(find(traces, "row.btrail"), "bytes", 0),
                    ==, sizes_of(&r, "row.") - size_of(&r, "row.01.btrail"));
    expect(traces, "row.btrail", "whole", RECORDS);
    expect(traces, "row.01.btrail", "whole", RECORDS);
    expect(traces, "row1.btrail", "whole", RECORDS);
    expect(traces, "2.btrail", "whole", RECORDS);
    g_assert_cmpint(g_unlink(second), ==, 0);
    g_assert_cmpstr(btrail_json_string(find(list(&r), "row.btrail"), "state"),
                    ==, "incomplete");
    /* A ring has deleted the oldest parts; it has its name still. */
    g_assert_cmpint(g_unlink(first), ==, 0);
    row = find(list(&r), "row.btrail");
    g_assert_cmpstr(btrail_json_string(row, "state"), ==, "whole");
    g_assert_cmpint(btrail_json_int(row, "records", 0), >, 0);
    g_assert_cmpint(btrail_json_int(row, "records", 0), <, RECORDS);
    clear(&r);
}

/* The last file that is there says that there was another one. */
static void test_last_part(void)
{
    const struct btrail_writer_options options = { .part_size = 1500 };
    g_autofree char *path = NULL;
    unsigned part = 0;
    struct rig r;

    setup(&r);
    path = path_of(&r, "row.btrail");
    sample_write_with(path, CHUNKS, &options);
    do {
        g_free(path);
        path = g_strdup_printf("%s/row.%u.btrail", r.path, ++part);
    } while (g_file_test(path, G_FILE_TEST_EXISTS));
    g_assert_cmpuint(part, >, 2);
    expect(list(&r), "row.btrail", "whole", RECORDS);
    g_free(path);
    path = g_strdup_printf("%s/row.%u.btrail", r.path, part - 1);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_cmpstr(btrail_json_string(find(list(&r), "row.btrail"), "state"),
                    ==, "incomplete");
    clear(&r);
}

/* What sessions have said of themselves, also where that is nonsense */
static void test_descriptions(void)
{
    static const char *const good[] = {
        "{\"session\": \"s\", \"owner\": \"o\", \"start\": "
        "{\"realtime\": 1709251199999999999}}",
        "{\"end\": {\"realtime\": 1709251200000000000}}", NULL,
    };
    static const char *const bad[] = {
        "{\"session\": 5, \"owner\": null, \"start\": {\"realtime\": -1}, "
        "\"end\": 7}", "{\"start\": {\"realtime\": \"x\"}}", "[]", "x",
        "{\"session\": \"x\\u0000y\"", NULL,
    };
    struct rig r;
    JsonArray *traces;
    JsonObject *t;

    setup(&r);
    add_described(&r, "good.btrail", good);
    add_described(&r, "bad.btrail", bad);
    set_changed(&r, "good.btrail", 1709251300);
    set_changed(&r, "bad.btrail", 1709251260);
    traces = list(&r);
    t = find(traces, "good.btrail");
    g_assert_cmpstr(btrail_json_string(t, "session"), ==, "s");
    g_assert_cmpstr(btrail_json_string(t, "owner"), ==, "o");
    g_assert_cmpstr(btrail_json_string(t, "begin"), ==,
                    "2024-02-29T23:59:59Z");
    g_assert_cmpstr(btrail_json_string(t, "end"), ==, "2024-03-01T00:00:00Z");
    g_assert_false(json_object_has_member(t, "changed"));
    t = find(traces, "bad.btrail");
    g_assert_false(json_object_has_member(t, "session"));
    g_assert_false(json_object_has_member(t, "owner"));
    g_assert_false(json_object_has_member(t, "begin"));
    g_assert_false(json_object_has_member(t, "end"));
    /* It is known when it was written, if not when it ended. */
    g_assert_cmpstr(btrail_json_string(t, "changed"), ==,
                    "2024-03-01T00:01:00Z");
    clear(&r);
}

/* The newest come first, and there is a limit to them. */
static void test_many(void)
{
    const unsigned n = LISTING_MAX + 6;
    struct rig r;
    JsonArray *traces;
    unsigned i;

    setup(&r);
    for (i = 0; i < n; i++) {
        g_autofree char *name = g_strdup_printf("t%u.btrail", i);

        add_text(&r, name, "x");
        /* Each two are of the same age: their names decide. */
        set_changed(&r, name, 1000 + i / 2);
    }
    traces = list(&r);
    g_assert_cmpuint(json_array_get_length(traces), ==, LISTING_MAX);
    g_assert_cmpint(btrail_json_int(r.listing, "older",
                                    0), ==, 6);
    for (i = 0; i < LISTING_MAX; i++) {
        JsonObject *t = json_array_get_object_element(traces, i);
        const char *file = btrail_json_string(t, "file");
        unsigned number = g_ascii_strtoull(file + 1, NULL, 10);

        g_assert_cmpuint(number, ==, n - 2 - 2 * (i / 2) + i % 2);
    }
    clear(&r);
}

/* Whatever the names are, the newest traces fit into the reply. */
static void check_long(const char *tail)
{
    g_autoptr(JsonObject) reply = NULL;
    GBytes *bytes;
    struct rig r;
    unsigned length;

    setup(&r);
    for (unsigned i = 0; i < LISTING_MAX; i++) {
        g_autofree char *name = g_strdup_printf("%04u%s.btrail", i, tail);

        add_text(&r, name, "x");
        set_changed(&r, name, 1000 + i);
    }
    length = json_array_get_length(list(&r));
    g_assert_cmpuint(length, >, 100);
    g_assert_cmpuint(length, <, LISTING_MAX);
    g_assert_cmpint(btrail_json_int(r.listing, "older", 0), ==,
                    LISTING_MAX - length);
    reply = btrail_json_new("s:type", "reply", "U:id", G_MAXINT64, "o:return",
                            json_object_ref(r.listing), NULL);
    bytes = message_format(reply);
    g_assert_nonnull(bytes);
    g_bytes_unref(bytes);
    clear(&r);
}

static void test_long(void)
{
    g_autofree char *commas = g_strnfill(100, ',');
    g_autofree char *folders = g_strnfill(195, 'f');
    g_autofree char *deep = g_strdup_printf("/%s/%s/%s/%s/%s", folders, folders,
                                            folders, folders, folders);

    check_long(commas);
    check_long(deep);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/listing/empty", test_empty);
    g_test_add_func("/listing/states", test_states);
    g_test_add_func("/listing/foreign", test_foreign);
    g_test_add_func("/listing/links", test_links);
    g_test_add_func("/listing/writing", test_writing);
    g_test_add_func("/listing/parts", test_parts);
    g_test_add_func("/listing/last-part", test_last_part);
    g_test_add_func("/listing/descriptions", test_descriptions);
    g_test_add_func("/listing/many", test_many);
    g_test_add_func("/listing/long", test_long);
    return g_test_run();
}
