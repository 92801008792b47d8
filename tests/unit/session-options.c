/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of client/session-options.h: what a user can write, the command that
 * this becomes, and that the service understands that
 */

#include <string.h>

#include "client/session-options.h"
#include "service/command.h"
#include "util/json.h"

/* As a program parses its command line; @line has blanks between words. */
static struct session_options parse(const char *line)
{
    struct session_options o = { 0 };
    const GOptionEntry entries[] = {
        SESSION_OPTIONS(SESSION_OPTION_ENTRY, &o)
        { NULL }
    };
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_autofree char *text = g_strconcat("test", *line ? " " : "", line, NULL);
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    GError *error = NULL;

    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_parse_strv(context, &words, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(g_strv_length(words), ==, 1);
    return o;
}

static JsonObject *start(const char *line, GError **error)
{
    struct session_options o = parse(line);
    JsonObject *json = session_options_check(&o, error) ?
                       session_options_start(&o, NULL, error) : NULL;

    session_options_clear(&o);
    return json;
}

/* The member @name of the command must be the JSON @expected. */
static void check(const char *line, const char *name, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) json = start(line, &error);
    g_autoptr(service_command) command = NULL;
    g_autoptr(JsonObject) one = json_object_new();
    g_autofree char *text = NULL;
    g_autofree char *whole = expected ? g_strdup_printf("{\"%s\":%s}", name,
                                                        expected) :
                             g_strdup("{}");

    g_assert_no_error(error);
    command = command_parse(json, &error);
    g_assert_no_error(error);
    g_assert_cmpint(command->what, ==, COMMAND_START);
    if (json_object_has_member(json, name)) {
        json_object_set_member(one, name, json_object_dup_member(json, name));
    }
    text = btrail_json_text(one, FALSE);
    g_assert_cmpstr(text, ==, whole);
}

static void test_start(void)
{
    g_autofree char *user = g_strdup_printf("\"%s\"", g_get_user_name());

    check("", "session", user);
    check("--session web", "session", "\"web\"");
    check("--vcpus 2-3,0", "vcpus", "[0,2,3]");
    check("--user", "privilege", "\"user\"");
    check("--kernel", "privilege", "\"kernel\"");
    check("--user --kernel", "privilege", NULL);
    check("--cr3 0x1000 --cr3 0x8000000000002000", "cr3",
          "[4096,-9223372036854767616]");
    check("--process nginx --process 7 --process 99999999999", "processes",
          "[\"nginx\",7,\"99999999999\"]");
    check("--trigger a:b --trigger c:d,do=stop", "triggers",
          "[{\"at\":\"a:b\",\"do\":\"start\",\"hits\":1},"
          "{\"at\":\"c:d\",\"do\":\"stop\",\"hits\":1}]");
    check("--mode last --size 1M --trigger a:b", "triggers",
          "[{\"at\":\"a:b\",\"do\":\"dump\",\"hits\":1}]");
    check("--trigger a:b --sysroot /a/../b --sysroot /c", "sysroots",
          "[\"/b\",\"/c\"]");
    check("--mode continuous", "mode", "\"continuous\"");
    check("--overflow drop", "overflow", "\"drop\"");
    check("--names all", "names", "\"all\"");
    check("--duration 1.5", "duration", "1.5");
    check("--duration 5min", "duration", "300.0");
    check("--split 1M", "split", "1048576");
    check("--split 1GiB", "split", "1073741824");
}

static void test_size(void)
{
    check("--mode last --size 64M", "size", "{\"bytes\":67108864}");
    check("--mode last --size 64MiB", "size", "{\"bytes\":67108864}");
    check("--mode last --size 2097152", "size", "{\"bytes\":2097152}");
    check("--mode last --size 30s", "size", "{\"seconds\":30}");
    check("--mode last --size 5min", "size", "{\"seconds\":300}");
    check("--mode last --size 1000000records", "size",
          "{\"records\":1000000}");
}

static void check_refused(const char *line, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(start(line, &error));
    g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
    g_assert_cmpstr(error->message, ==, why);
}

#define SIZE(text) "--size: '" text "' is not a size such as 64MiB, a time " \
    "such as 30s, or a number such as 1000000records"
#define TIME(text) "--duration: '" text "' is not a time such as 3, 2.5s, " \
    "500ms, 5min or 1h"

static void test_refused(void)
{
    g_autofree char *name = g_strnfill(SESSION_MAX_NAME + 1, 'x');
    g_autofree char *line = g_strconcat("--session ", name, NULL);

    check_refused(line, "--session: a name has at most 63 bytes");
    check_refused("--vcpus 1024",
                  "--vcpus: '1024' is not a list of vCPUs such as 0,2-3");
    check_refused("--cr3 1 --cr3 x", "--cr3: 'x' is not a value of CR3, such "
                  "as 0x1234000");
    check_refused("--trigger a:b --trigger c:d,hits=0",
                  "--trigger: 'c:d,hits=0': 'hits=0' is not do=ACTION (start, "
                  "stop or dump), hits=NUMBER, longer=TIME, "
                  "until=mark:NAME or once");
    check_refused("--mode x", "--mode: 'x' is not continuous or last");
    check_refused("--overflow x",
                  "--overflow: 'x' is not pause, drop or overwrite");
    check_refused("--names x", "--names: 'x' is not off, auto or all");
    check_refused("--mode last",
                  "--mode last needs --size, how much to keep");
    check_refused("--size 1M", "--size needs --mode last");
    check_refused("--sysroot /", "--sysroot needs --trigger");
    check_refused("--mode continuous --size 1M", "--size needs --mode last");
    check_refused("--mode last --size 5m", "--size: '5m' is ambiguous: write "
                  "5min for minutes, or 5MiB");
    check_refused("--mode last --size 0", SIZE("0"));
    check_refused("--mode last --size 0records", SIZE("0records"));
    check_refused("--mode last --size 500ms", SIZE("500ms"));
    check_refused("--mode last --size 64MB", SIZE("64MB"));
    check_refused("--mode last --size 64iB", SIZE("64iB"));
    check_refused("--mode last --size 8388608T", SIZE("8388608T"));
    check_refused("--mode last --size 10parsecs", SIZE("10parsecs"));
    check_refused("--duration 5m",
                  "--duration: '5m' is ambiguous: write 5min for minutes");
    check_refused("--duration 0min", "--duration: 0 is too short");
    check_refused("--duration=-5", TIME("-5"));
    check_refused("--duration 9223372036854775807h",
                  TIME("9223372036854775807h"));
    check_refused("--split x",
                  "--split: 'x' is not a size such as 512K or 2M");
    check_refused("--split 512K", "--split: '512K' is below 1M");
}

/* Options are for the device, for whoever records, or for the service. */
static void test_use(void)
{
    struct session_options o = parse(
        "--vcpus 1 --user --cr3 1 --overflow drop --session s --duration 1 "
        "--split 1M --names off");
    g_autoptr(JsonObject) json = json_object_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    g_assert_true(session_options_check(&o, &error));
    g_assert_cmpuint(o.duration_ns, ==, 1000000000);
    g_assert_cmpuint(o.part_size, ==, 1 << 20);
    g_assert_false(session_options_need_service(&o));
    g_assert_true(session_options_add_filter(&o, json, &error));
    text = btrail_json_text(json, FALSE);
    g_assert_cmpstr(text, ==, "{\"vcpus\":[1],\"privilege\":\"user\","
                    "\"cr3\":[1],\"overflow\":\"drop\"}");
    session_options_clear(&o);
    for (const char *const *line = (const char *const[]) {
        "--process x", "--trigger a:b", "--sysroot /", "--mode last",
        "--size 1M", NULL
    }; *line; line++) {
        o = parse(*line);
        g_assert_true(session_options_need_service(&o));
        session_options_clear(&o);
    }
}

/* Whatever is listed as a word is one. */
static void test_words(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SESSION_OPTION_COUNT; i++) {
        const char *value;
        word_fn *words = session_option_words(i, &value);

        n += words != NULL;
        g_assert_true(!words || value);
    }
    g_assert_cmpuint(n, ==, 3);
    for (unsigned i = 0; names_wanted_name(i); i++) {
        g_autofree char *line = g_strconcat("--names ",
                                            names_wanted_name(i),
                                            NULL);
        g_autofree char *json = g_strdup_printf(
            "\"%s\"", names_wanted_name(i));

        check(line, "names", json);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-options/start", test_start);
    g_test_add_func("/session-options/size", test_size);
    g_test_add_func("/session-options/refused", test_refused);
    g_test_add_func("/session-options/use", test_use);
    g_test_add_func("/session-options/words", test_words);
    return g_test_run();
}
