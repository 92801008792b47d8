/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long calls took, as it is printed: times to three digits, against exact
 * arithmetic; bars and JSON against all values
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/latency-table.h"

static const char *const names[] = { "sh", "libc.so.6", "read" };

/* What is printed to a stream between the two, to be freed */
static FILE *caught;
static int kept;

static void catch_begin(int fd)
{
    fflush(NULL);
    caught = tmpfile();
    kept = dup(fd);
    g_assert_cmpint(dup2(fileno(caught), fd), ==, fd);
}

static char *catch_end(int fd)
{
    GString *text = g_string_new(NULL);
    int c;

    fflush(NULL);
    g_assert_cmpint(dup2(kept, fd), ==, fd);
    close(kept);
    rewind(caught);
    while ((c = getc(caught)) != EOF) {
        g_string_append_c(text, c);
    }
    fclose(caught);
    return g_string_free(text, FALSE);
}

/* Is a text the number of three digits, in its unit, that is nearest? */
static void check_text(uint64_t ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 },
                  { "s", 1000000000 } };
    char buf[LATENCY_SIZE];
    const char *text = latency_text(ns, buf), *unit;
    unsigned digits = 0, after = 0;
    unsigned __int128 value = 0, step, got;
    bool point = false;

    g_assert_true(text == buf);
    for (unit = text; *unit == '.' || g_ascii_isdigit(*unit); unit++) {
        if (*unit == '.') {
            g_assert_false(point);
            point = true;
        } else {
            value = value * 10 + (*unit - '0');
            digits++;
            after += point;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(units); i++) {
        if (strcmp(units[i].name, unit)) {
            g_assert_true(i < G_N_ELEMENTS(units) - 1);
            continue;
        }
        step = units[i].ns;
        for (unsigned k = 0; k < after; k++) {
            step /= 10;
        }
        got = value * step;
        /* Off by half of its last digit at most */
        g_assert_true((got > ns ? got - ns : ns - got) * 2 <= step);
        /* Three digits, but for few ns and many s */
        g_assert_true(digits == 3 || (!i && digits < 3) ||
                      (i == 3 && digits > 3 && !point));
        g_assert_true(text[0] != '0' || ns == 0);
        break;
    }
}

static void test_text(void)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } known[] = {
        { 0, "0ns" }, { 7, "7ns" }, { 999, "999ns" }, { 1000, "1.00us" },
        { 9994, "9.99us" }, { 9996, "10.0us" }, { 99940, "99.9us" },
        { 99960, "100us" }, { 999499, "999us" }, { 999500, "1.00ms" },
        { 1234567, "1.23ms" }, { 59999999999, "60.0s" },
        { UINT64_MAX, "18446744074s" },
    };
    uint64_t tens = 1;

    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        char buf[LATENCY_SIZE];

        g_assert_cmpstr(latency_text(known[i].ns, buf), ==, known[i].text);
    }
    for (uint64_t ns = 0; ns < 200000; ns++) {
        check_text(ns);
    }
    for (unsigned i = 0; i < 18; i++, tens *= 10) {
        for (uint64_t k = 0; k < 2000; k++) {
            check_text(tens * k);
            check_text(tens * k + tens / 2);
            check_text(tens * k - 1);
        }
    }
}

static bool parse(const char *text, enum latency_key *key)
{
    g_autofree char *copy = g_strdup(text), *said = NULL;
    struct latency_options o = { .sort_text = copy, .key = LATENCY_TOTAL };
    bool ok;

    catch_begin(STDERR_FILENO);
    ok = latency_options_parse(&o);
    said = catch_end(STDERR_FILENO);
    g_assert_cmpint(ok, ==, !*said);
    g_assert_true(ok || strstr(said, "is not count, total, mean"));
    *key = o.key;
    return ok;
}

static void test_parse(void)
{
    static const char *const all[] = {
        "count", "total", "mean", "p50", "p95", "p99", "max",
    };
    enum latency_key key;

    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        g_assert_true(parse(all[i], &key));
        g_assert_cmpuint(key, ==, LATENCY_COUNT + i);
    }
    g_assert_false(parse("p9", &key));
    g_assert_false(parse("", &key));
    g_assert_false(parse("Max", &key));
    g_assert_false(parse("max\033[1m", &key));
    /* None was given. */
    g_assert_true(parse(NULL, &key));
    g_assert_cmpuint(key, ==, LATENCY_TOTAL);
}

/* A row with one of each of these calls; 0 ends them. */
static const struct latency *row_of(struct latencies *l, const uint64_t *whole,
                                    uint64_t partial)
{
    for (; *whole; whole++) {
        latencies_add(l, names, *whole, true);
    }
    if (partial) {
        latencies_add(l, names, partial, false);
    }
    return latencies_find(l, names);
}

static void check_line(const uint64_t *whole, uint64_t partial,
                       const char *want)
{
    struct latencies *l = latencies_new(0);
    const struct latency *row = row_of(l, whole, partial);
    g_autofree char *text = NULL;

    catch_begin(STDOUT_FILENO);
    latency_print(row);
    text = catch_end(STDOUT_FILENO);
    g_assert_cmpstr(text, ==, want);
    g_assert_cmpuint(strlen(text), ==, LATENCY_WIDTH);
    latencies_free(l);
}

static JsonNode *member(JsonObject *o, const char *name)
{
    JsonNode *node = json_object_get_member(o, name);

    g_assert_nonnull(node);
    return node;
}

static void check_int(JsonObject *o, const char *name, gint64 want)
{
    g_assert_cmpint(json_node_get_int(member(o, name)), ==, want);
}

/* Of too many times to be kept, the mean is known, and the longest. */
static void test_forgotten(void)
{
    struct histogram_budget budget = { 0 };
    struct latency row = {
        .times = histogram_new_within(&budget), .total = 400,
    };
    g_autoptr(JsonObject) o = json_object_new();
    g_autofree char *text = NULL, *note = NULL;

    histogram_add(row.times, 100);
    histogram_add(row.times, 300);
    g_assert_false(histogram_known(row.times));
    catch_begin(STDOUT_FILENO);
    latency_print(&row);
    text = catch_end(STDOUT_FILENO);
    g_assert_cmpstr(text, ==,
                    "   400ns   200ns       -       -       -   300ns");
    latency_add_json(o, &row);
    check_int(o, "mean_ns", 200);
    g_assert_true(json_node_is_null(member(o, "p50_ns")));
    check_int(o, "max_ns", 300);
    catch_begin(STDOUT_FILENO);
    latency_print_forgotten(0);
    latency_print_forgotten(budget.forgotten);
    note = catch_end(STDOUT_FILENO);
    g_assert_true(g_str_has_prefix(note, "# of 1 rows, percentiles are not "));
    histogram_free(row.times);
}

/* What is not known of calls that were cut off is not said. */
static void test_line(void)
{
    static const uint64_t none[] = { 0 }, some[] = { 100, 200, 300, 0 };
    g_autofree char *header = NULL;

    check_line(some, 0, "   600ns   200ns   200ns   300ns   300ns   300ns");
    check_line(none, 50, "   >50ns       -       -       -       -   >50ns");
    check_line(some, 50, "  >650ns   200ns   200ns   300ns   300ns   300ns");
    check_line(some, 300, "  >900ns   200ns   200ns   300ns   300ns   300ns");
    check_line(some, 301, "  >901ns   200ns   200ns   300ns   300ns  >301ns");
    catch_begin(STDOUT_FILENO);
    latency_print_header();
    header = catch_end(STDOUT_FILENO);
    g_assert_cmpstr(header, ==,
                    "   Total    Mean     p50     p95     p99     Max");
}

/* Random values of all sizes, which bars and JSON must count */
static struct histogram *random_histogram(GArray *values, unsigned n)
{
    struct histogram *h = histogram_new();

    for (unsigned i = 0; i < n; i++) {
        uint64_t high = (uint32_t)g_test_rand_int();
        uint64_t v = (high << 32 | (uint32_t)g_test_rand_int())
                     >> g_test_rand_int_range(0, 64);

        histogram_add(h, v);
        g_array_append_val(values, v);
    }
    return h;
}

/* How many values are in a range, whose end does not belong to it */
static uint64_t count(const GArray *values, uint64_t from, uint64_t to)
{
    uint64_t n = 0;

    for (guint i = 0; i < values->len; i++) {
        uint64_t v = g_array_index(values, uint64_t, i);

        n += v >= from && v < to;
    }
    return n;
}

/* Ranges follow each other, and have all values that a number of JSON has. */
static void test_bars_json(void)
{
    for (unsigned n = 0; n < 500; n += 7) {
        g_autoptr(GArray) values = g_array_new(FALSE, FALSE, sizeof(uint64_t));
        struct histogram *h = random_histogram(values, n);
        g_autoptr(JsonArray) bars = latency_bars_json(h);
        uint64_t all = 0, last = 0;

        for (guint i = 0; i < json_array_get_length(bars); i++) {
            JsonObject *bar = json_array_get_object_element(bars, i);
            gint64 from = json_object_get_int_member(bar, "from");
            gint64 to = json_object_get_int_member(bar, "to");
            uint64_t in = json_object_get_int_member(bar, "count");

            g_assert_cmpint(from, >=, last);
            g_assert_cmpuint(in, >, 0);
            if (from == INT64_MAX) {
                g_assert_cmpint(to, ==, INT64_MAX);
                g_assert_cmpuint(in, ==, count(values, UINT64_C(1) << 63,
                                               UINT64_MAX));
            } else {
                g_assert_cmpint(to, >, from);
                g_assert_cmpuint(in, ==, count(values, from,
                                               (uint64_t)to +
                                               (to == INT64_MAX)));
            }
            all += in;
            last = to;
        }
        g_assert_cmpuint(all, ==, n);
        histogram_free(h);
    }
}

static void check_bars(const uint64_t *values, const char *want)
{
    struct histogram *h = histogram_new();
    g_autofree char *text = NULL;

    for (; *values; values++) {
        histogram_add(h, *values);
    }
    catch_begin(STDOUT_FILENO);
    latency_print_bars(h);
    text = catch_end(STDOUT_FILENO);
    g_assert_cmpstr(text, ==, want);
    histogram_free(h);
}

static void test_bars(void)
{
    check_bars((const uint64_t[]) { 0 }, "");
    check_bars((const uint64_t[]) { 1, 1000, 1023, 512, 600, 3, 0 },
               "       0ns ..     2ns          1 "
               "|##########                              |\n"
               "       2ns ..     4ns          1 "
               "|##########                              |\n"
               "     512ns ..  1.02us          4 "
               "|########################################|\n");
    check_bars((const uint64_t[]) { UINT64_MAX, 0 },
               "  9223372037s ..18446744074s          1 "
               "|########################################|\n");
}

static void test_json(void)
{
    static const uint64_t none[] = { 0 }, some[] = { 100, 200, 300, 0 };
    static const uint64_t large[] = { UINT64_MAX, UINT64_MAX - 1, 0 };
    struct latencies *l = latencies_new(0);
    g_autoptr(JsonObject) o = json_object_new();
    g_autoptr(JsonObject) cut = json_object_new();
    g_autoptr(JsonObject) much = json_object_new();

    latency_add_json(o, row_of(l, some, 0));
    check_int(o, "count", 3);
    check_int(o, "partial", 0);
    check_int(o, "total_ns", 600);
    check_int(o, "mean_ns", 200);
    check_int(o, "p50_ns", 200);
    check_int(o, "p99_ns", 300);
    check_int(o, "max_ns", 300);
    g_assert_false(json_object_get_boolean_member(o, "max_partial"));
    g_assert_true(json_object_get_boolean_member(o, "exact"));
    latencies_free(l);

    l = latencies_new(0);
    latency_add_json(cut, row_of(l, none, 50));
    check_int(cut, "count", 1);
    check_int(cut, "partial", 1);
    g_assert_true(json_node_is_null(member(cut, "mean_ns")));
    g_assert_true(json_node_is_null(member(cut, "p50_ns")));
    check_int(cut, "max_ns", 50);
    g_assert_true(json_object_get_boolean_member(cut, "max_partial"));
    latencies_free(l);

    /* What is more than a number of JSON has */
    l = latencies_new(0);
    latency_add_json(much, row_of(l, large, 0));
    g_assert_cmpint(json_object_get_int_member(much, "total_ns"), >, 0);
    check_int(much, "mean_ns", INT64_MAX);
    check_int(much, "max_ns", INT64_MAX);
    latencies_free(l);
}

/* Rows beyond the first ones are counted, and named as they are. */
static void test_table(void)
{
    static const char *const other[] = { "a\nb", "", "f\033" };
    struct latency_options o = { .key = LATENCY_TOTAL };
    struct latencies *l = latencies_new(0);
    g_autofree char *all = NULL, *one = NULL, *same = NULL;

    latencies_add(l, names, 100, true);
    latencies_add(l, other, 500, true);
    latencies_add(l, other, 500, false);
    catch_begin(STDOUT_FILENO);
    latency_print_table(l, &o, "Function");
    all = catch_end(STDOUT_FILENO);
    g_assert_cmpstr(strchr(all, '\n'), ==,
        "\n#    Calls  Partial   Total    Mean     p50     p95     p99     Max"
        "  Command  Function\n"
        "         2        1 >1.00us   500ns   500ns   500ns   500ns   500ns"
        "  a\\nb     f\\x1b\n"
        "         1        0   100ns   100ns   100ns   100ns   100ns   100ns"
        "  sh       read\n");
    o.top = 5;
    catch_begin(STDOUT_FILENO);
    latency_print_table(l, &o, "Function");
    same = catch_end(STDOUT_FILENO);
    g_assert_cmpstr(same, ==, all);
    o.top = 1;
    catch_begin(STDOUT_FILENO);
    latency_print_table(l, &o, "Function");
    one = catch_end(STDOUT_FILENO);
    g_assert_nonnull(strstr(one, "a\\nb"));
    g_assert_null(strstr(one, "read"));
    g_assert_nonnull(strstr(one, "\n# 1 more rows; --top=0 shows them\n"));
    latencies_free(l);
}

int main(int argc, char **argv)
{
    g_setenv("LC_ALL", "C.UTF-8", TRUE);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/latency-table/text", test_text);
    g_test_add_func("/latency-table/parse", test_parse);
    g_test_add_func("/latency-table/line", test_line);
    g_test_add_func("/latency-table/forgotten", test_forgotten);
    g_test_add_func("/latency-table/bars-json", test_bars_json);
    g_test_add_func("/latency-table/bars", test_bars);
    g_test_add_func("/latency-table/json", test_json);
    g_test_add_func("/latency-table/table", test_table);
    return g_test_run();
}
