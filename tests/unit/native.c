/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of native.c: command lines of libvirt in, QEMU's arguments out
 */

#include <string.h>

#include "replay/native.h"

#define PROGRAM "LC_ALL=C HOME='/x y' /usr/bin/qemu-system-x86_64 "

static char *no_more[] = { NULL };

static void check(const char *line, const char *want)
{
    g_autofree char *text = g_strconcat(PROGRAM, line, NULL);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) got = native_arguments(text, no_more, &error);
    g_autofree char *joined = NULL;

    g_assert_no_error(error);
    joined = g_strjoinv("|", got);
    g_assert_cmpstr(joined, ==, want);
}

static void check_refused(const char *line, const char *why)
{
    g_autofree char *text = g_strconcat(PROGRAM, line, NULL);
    g_autoptr(GError) error = NULL;
    char **got = native_arguments(text, no_more, &error);

    g_assert_null(got);
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_nonnull(strstr(error->message, why));
}

static void test_dropped(void)
{
    check("-name guest=a,,b -S -object '{\"qom-type\":\"secret\",\"id\":\"m\"}' "
          "-chardev socket,id=charmonitor,path=/m -mon chardev=charmonitor "
          "-no-shutdown -sandbox on,spawn=deny -msg timestamp=on "
          "-append -S -unknown x",
          "-name|guest=a,,b|-append|-S|-unknown|x");
}

static void test_json(void)
{
    check("-device '{\"driver\":\"e1000\",\"bus\":\"pci.0\",\"bootindex\":2,"
          "\"multifunction\":true,\"x\":\"a,b\"}' -object "
          "'{\"qom-type\":\"memory-backend-memfd\",\"size\":1048576}'",
          "-device|e1000,bus=pci.0,bootindex=2,multifunction=on,x=a,,b|"
          "-object|memory-backend-memfd,size=1048576");
    check_refused("-device '{\"driver\":\"x\",\"list\":[1]}'", "'list'");
    check_refused("-device '{\"driver\":'", "not JSON");
}

static void test_drives(void)
{
    check("-blockdev '{\"driver\":\"file\",\"filename\":\"/d,i\","
          "\"node-name\":\"s\"}' -blockdev '{\"node-name\":\"f\","
          "\"read-only\":true,\"driver\":\"qcow2\",\"file\":\"s\","
          "\"backing\":null}' -device '{\"driver\":\"ide-hd\","
          "\"drive\":\"f\"}'",
          "-drive|file=/d,,i,format=qcow2,if=none,id=f,readonly=on|"
          "-device|ide-hd,drive=f");
    /* One node for both */
    check("-blockdev '{\"driver\":\"file\",\"filename\":\"/d\","
          "\"node-name\":\"f\"}' -device ide-hd,drive=f",
          "-drive|file=/d,format=raw,if=none,id=f|-device|ide-hd,drive=f");
    check("-blockdev '{\"node-name\":\"f\",\"driver\":\"raw\",\"file\":"
          "{\"driver\":\"file\",\"filename\":\"/d\"}}' "
          "-device ide-hd,drive=f",
          "-drive|file=/d,format=raw,if=none,id=f|-device|ide-hd,drive=f");
    check_refused("-blockdev '{\"driver\":\"host_device\",\"filename\":\"/d\","
                  "\"node-name\":\"f\"}' -device ide-hd,drive=f",
                  "not a file");
    check_refused("-blockdev '{\"node-name\":\"b\"}' -blockdev "
                  "'{\"node-name\":\"f\",\"driver\":\"qcow2\",\"backing\":"
                  "\"b\",\"file\":{\"driver\":\"file\",\"filename\":\"/d\"}}' "
                  "-device ide-hd,drive=f", "/d: it has a backing file");
    check_refused("-blockdev '{\"node-name\":\"f\",\"driver\":\"raw\","
                  "\"offset\":512,\"file\":{\"driver\":\"file\","
                  "\"filename\":\"/d\"}}' -device ide-hd,drive=f",
                  "only a part");
    /* A node that is its own file */
    check_refused("-blockdev '{\"node-name\":\"f\",\"driver\":\"raw\","
                  "\"file\":\"f\"}' -device ide-hd,drive=f", "not a file");
    check_refused("-blockdev 1", "no name");
}

static void test_ports(void)
{
    check("-chardev stdio,id=c -device '{\"driver\":\"isa-serial\","
          "\"chardev\":\"c\",\"id\":\"serial0\",\"index\":1}' -m size=1024k",
          "-chardev|stdio,id=c|-m|1024K|-serial|none|-serial|chardev:c");
    check_refused("-device isa-serial,index=4,chardev=c", "0 to 3");
    check_refused("-device isa-serial,index=1,chardev=c "
                  "-device isa-serial,index=1,chardev=d", "each once");
}

static void test_clock(void)
{
    static const char front[] = "-rtc|base=20";
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) got = native_arguments(
        PROGRAM "-rtc base=localtime,driftfix=slew", no_more,
        &error);
    g_autofree char *joined = NULL;

    g_assert_no_error(error);
    joined = g_strjoinv("|", got);
    g_assert_true(g_str_has_prefix(joined, front));
    g_assert_cmpuint(strlen(joined), ==,
                     strlen("-rtc|base=2026-11-23T00:00:00"));
    check("-rtc base=utc,driftfix=slew", "-rtc|base=utc");
}

static void test_broken(void)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(native_arguments("qemu 'x", no_more, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    check_refused("-device", "value is missing");
    check("", "");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/native/dropped", test_dropped);
    g_test_add_func("/native/json", test_json);
    g_test_add_func("/native/drives", test_drives);
    g_test_add_func("/native/ports", test_ports);
    g_test_add_func("/native/clock", test_clock);
    g_test_add_func("/native/broken", test_broken);
    return g_test_run();
}
