/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The configuration: defaults, values, and what its errors name
 */

#include <glib/gstdio.h>
#include <string.h>

#include "service/config.h"

static void test_default(void)
{
    struct config *c = config_read(NULL, NULL);

    g_assert_cmpstr(c->socket, ==, "/run/backtrail/agent.sock");
    g_assert_cmpuint(c->socket_mode, ==, 0600);
    g_assert_cmpstr(c->traces, ==, "/var/lib/backtrail/traces");
    g_assert_null(c->socket_group);
    g_assert_null(c->sysroots);
    g_assert_null(c->debug_dirs);
    g_assert_cmpuint(c->each.disk, ==, 0);
    g_assert_cmpuint(c->each.cpu, ==, 0);
    g_assert_cmpuint(c->all.cpu, ==, 0);
    g_assert_cmpuint(c->each.sessions, >, 0);
    g_assert_cmpuint(c->keep_free, >, 0);
    g_assert_false(c->verbose);
    config_free(c);
}

static void test_all_keys(void)
{
    static const char text[] =
        "# comment\n"
        "[service]\nsocket = /s\nsocket-mode=0600\nsocket-group=kvm\n"
        "traces=/t\nstate=/u\nverbose=true\n"
        "[guests]\nmost=3\nbuffer-size=4M\nagent-timeout=700\n"
        "sysroots=/a; /b\\;c;\ndebug-dirs=\n"
        "[each-guest]\nsessions=1\ncpu=50\ndisk=2G\nmemory=3m\nnames=9M\n"
        "ring=5M\n"
        "[all-guests]\nsessions=5\ncpu=250\ndisk=6T\nmemory=7K\n"
        "keep-free=9\n";
    GError *error = NULL;
    struct config *c = config_parse(text, "f", &error);

    g_assert_no_error(error);
    g_assert_cmpstr(c->socket, ==, "/s");
    g_assert_cmpuint(c->socket_mode, ==, 0600);
    g_assert_cmpstr(c->socket_group, ==, "kvm");
    g_assert_cmpstr(c->traces, ==, "/t");
    g_assert_cmpstr(c->state, ==, "/u");
    g_assert_true(c->verbose);
    g_assert_cmpuint(c->guests, ==, 3);
    g_assert_cmpuint(c->buffer_size, ==, 4 << 20);
    g_assert_cmpuint(c->agent_timeout, ==, 700);
    g_assert_cmpuint(g_strv_length(c->sysroots), ==, 2);
    g_assert_cmpstr(c->sysroots[0], ==, "/a");
    g_assert_cmpstr(c->sysroots[1], ==, "/b;c");
    g_assert_cmpuint(g_strv_length(c->debug_dirs), ==, 0);
    g_assert_cmpuint(c->each.sessions, ==, 1);
    g_assert_cmpuint(c->each.disk, ==, UINT64_C(2) << 30);
    g_assert_cmpuint(c->each.memory, ==, 3 << 20);
    g_assert_cmpuint(c->names, ==, 9 << 20);
    g_assert_cmpuint(c->ring, ==, 5 << 20);
    g_assert_cmpuint(c->all.sessions, ==, 5);
    g_assert_cmpuint(c->each.cpu, ==, 50);
    g_assert_cmpuint(c->all.cpu, ==, 250);
    g_assert_cmpuint(c->all.disk, ==, UINT64_C(6) << 40);
    g_assert_cmpuint(c->all.memory, ==, 7 << 10);
    g_assert_cmpuint(c->keep_free, ==, 9);
    config_free(c);
}

/* A group is named that may connect, too. */
static void test_group(void)
{
    struct config *c = config_parse(
        "[service]\nsocket-group=kvm\n", "f", NULL);

    g_assert_cmpuint(c->socket_mode, ==, 0660);
    config_free(c);
}

static void refused(const char *text, const char *why)
{
    GError *error = NULL;
    struct config *c = config_parse(text, "the file", &error);

    g_assert_null(c);
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_CONFIG);
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, "the file"));
    g_assert_nonnull(strstr(error->message, why));
    g_error_free(error);
}

static void test_refused(void)
{
    refused("[servce]\n", "[servce]");
    refused("[service]\nsokcet=/x\n", "'sokcet'");
    refused("[service]\nsocket=x\n", "an absolute path");
    refused("[service]\nsocket=\n", "an absolute path");
    refused("[service]\nsocket-group=\n", "a name");
    refused("[service]\nsocket-mode=rw\n", "permissions");
    refused("[service]\nsocket-mode=1777\n", "permissions");
    refused("[service]\nsocket-mode=08\n", "permissions");
    refused("[service]\nverbose=yes\n", "true or false");
    refused("[guests]\nmost=0\n", "range");
    refused("[guests]\nbuffer-size=1K\n", "range");
    refused("[guests]\nsysroots=/a;b\n", "'b' is not an absolute path");
    refused("[guests]\ndebug-dirs=/a;;/b\n", "an absolute path");
    refused("[each-guest]\ndisk=-1\n", "a size");
    refused("[each-guest]\ndisk=1X\n", "a size");
    refused("[each-guest]\ndisk=1GB\n", "a size");
    refused("[each-guest]\ndisk=99999999T\n", "a size");
    refused("[each-guest]\ndisk=99999999999999999999999\n", "a size");
    refused("[each-guest]\nnames=1023K\n", "range");
    refused("[each-guest]\nsessions=1k\n", "a number");
    refused("[each-guest]\nsessions=\n", "a number");
    refused("sessions=1\n", "group");
    refused("[each-guest\n", "the file");
}

static void test_file(void)
{
    g_autofree char *path = NULL;
    GError *error = NULL;
    struct config *c;
    int fd = g_file_open_tmp("config-XXXXXX", &path, NULL);

    g_assert_cmpint(fd, >=, 0);
    g_close(fd, NULL);
    g_assert_true(g_file_set_contents(path, "[guests]\nmost=2\n", -1, NULL));
    c = config_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(c->guests, ==, 2);
    config_free(c);
    g_unlink(path);
    g_assert_null(config_read(path, &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_CONFIG);
    g_error_free(error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/config/default", test_default);
    g_test_add_func("/config/group", test_group);
    g_test_add_func("/config/all-keys", test_all_keys);
    g_test_add_func("/config/refused", test_refused);
    g_test_add_func("/config/file", test_file);
    return g_test_run();
}
