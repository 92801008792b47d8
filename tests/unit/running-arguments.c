/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of running-arguments.c: command lines of guests that run in, those of
 * their copies out
 */

#include <string.h>

#include "replay/machine.h"
#include "replay/running-arguments.h"

static void check(const char *line, const char *want)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) got = running_arguments_new(words, "/where", &error);
    g_autofree char *text = NULL;

    g_assert_no_error(error);
    text = g_strjoinv(" ", got);
    g_assert_cmpstr(text, ==, want);
}

static void refused(const char *line, const char *why)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    g_autoptr(GError) error = NULL;

    g_assert_null(running_arguments_new(words, "/where", &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, why));
}

/* What the copy must not have, or must have otherwise */
static void test_host(void)
{
    check("-nodefaults -S -qmp unix:q,server=on -m 1G -daemonize -pidfile p "
          "-monitor stdio -gdb tcp::1 -s -accel tcg,thread=multi -display gtk "
          "--no-shutdown -incoming file:x -D log",
          "-nodefaults -m 1G");
    check("-nodefaults -netdev tap,id=a.b,ifname=tap0,script=no "
          "-device e1000,netdev=a.b",
          "-nodefaults -netdev null,id=a.b "
          "-device e1000,netdev=a.b");
    check("-nodefaults -netdev user,id=n,hostfwd=tcp::1-:1",
          "-nodefaults -netdev user,restrict=on,id=n");
    check("-nic bridge,br=virbr0,model=e1000,mac=52:54:00:00:00:01",
          "-nic null,model=e1000,mac=52:54:00:00:00:01");
    check("-nic none", "-nic none");
    check("-net none", "-net none");
    /* QEMU would add one. */
    check("-m 1G", "-m 1G -nic user,restrict=on");
    check("-nodefaults -chardev socket,id=c,path=/x,mux=on -mon chardev=c "
          "-serial none -serial chardev:c -serial pty -parallel file:x",
          "-nodefaults -serial none -serial stdio -serial null "
          "-parallel null");
    check("-nodefaults -chardev file,id=c,path=x -device isa-debugcon,chardev=c",
          "-nodefaults -chardev null,id=c -device isa-debugcon,chardev=c");
    check("-nodefaults -object memory-backend-file,id=m,size=1G,mem-path=/m,"
          "share=on,prealloc=on -machine pc,memory-backend=m",
          "-nodefaults -object memory-backend-memfd,id=m,size=1G,share=on "
          "-machine pc,memory-backend=m");
    check("-nodefaults -object rng-builtin,id=r "
          "-device branch-trace,agent=/run/x",
          "-nodefaults -object rng-builtin,id=r -device branch-trace");
}

/* Paths are from where QEMU was started; values are no options. */
static void test_paths(void)
{
    check("-nodefaults -kernel k -initrd /i -append -S -L f -bios none.bin",
          "-nodefaults -kernel /where/k -initrd /i -append -S -L /where/f "
          "-bios none.bin");
    check("-nodefaults -drive file=d,,1,if=virtio -drive if=ide,media=cdrom "
          "-cdrom c.iso x.img",
          "-nodefaults -drive if=virtio,file=/where/d,,1 "
          "-drive if=ide,media=cdrom -cdrom /where/c.iso /where/x.img");
}

static void test_refused(void)
{
    refused("-nodefaults -snapshot", "record it from power-on");
    refused("-drive file=d,snapshot=on", "record it from power-on");
}

/* What is not known here is refused by name where a machine is made of it. */
static void test_unknown(void)
{
    g_auto(GStrv) words = g_strsplit("-nodefaults -fancy -S -m", " ", 0);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) got = running_arguments_new(words, "/", &error);

    g_assert_no_error(error);
    g_assert_null(machine_new(got, &error));
    g_assert_nonnull(strstr(error->message, "-fancy"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/running-arguments/host", test_host);
    g_test_add_func("/running-arguments/paths", test_paths);
    g_test_add_func("/running-arguments/refused", test_refused);
    g_test_add_func("/running-arguments/unknown", test_unknown);
    return g_test_run();
}
