/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of machine.c: command lines in, command lines out, and what is refused
 */

#include <glib/gstdio.h>
#include <string.h>

#include "replay/machine.h"
#include "replay/replay-arguments.h"
#include "scratch.h"

struct fixture {
    char *folder, *before;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->before = g_get_current_dir();
    g_assert_cmpint(g_chdir(f->folder), ==, 0);
    g_assert_true(g_file_set_contents("disk.img", "disk", 4, NULL));
    g_assert_true(g_file_set_contents("a,b c", "kernel", 6, NULL));
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    g_assert_cmpint(g_chdir(f->before), ==, 0);
    scratch_remove(f->folder);
    g_free(f->before);
}

static struct machine *parse(const char *line, GError **error)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);

    /* "~" stands for a blank. */
    for (char **w = words; *w; w++) {
        g_strdelimit(*w, "~", ' ');
    }
    return machine_new(*line ? words : (char *[]){ NULL }, error);
}

static char *join(const GPtrArray *list)
{
    g_autoptr(GString) out = g_string_new(NULL);

    for (unsigned i = 0; i < list->len; i++) {
        g_string_append_printf(out, "%s%s", i ? " " : "",
                               (char *)g_ptr_array_index(list, i));
    }
    return g_string_free(g_steal_pointer(&out), FALSE);
}

/* What every machine gets at the end */
#define RECORD_END \
    " -machine pc -accel tcg -no-user-config -L recording/files/firmware"
#define REPLAY_END(size) \
    " -monitor none -display none " \
    "-object memory-backend-memfd,id=pc.ram,size=" size ",share=on " \
    "-machine pc,memory-backend=pc.ram -accel tcg -no-user-config " \
    "-L recording/files/firmware"

static void check_safe(const struct machine *m)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    g_autoptr(GError) error = NULL;

    for (unsigned i = 0; i < m->replay->len; i++) {
        g_ptr_array_add(list, g_ptr_array_index(m->replay, i));
    }
    g_ptr_array_add(list, NULL);
    replay_arguments_check((char **)list->pdata, &error);
    g_assert_no_error(error);
}

static void check(const char *line, const char *record, const char *replay)
{
    g_autoptr(GError) error = NULL;
    struct machine *m = parse(line, &error);
    g_autofree char *one = NULL, *two = NULL;

    g_assert_no_error(error);
    one = join(m->record);
    two = join(m->replay);
    g_assert_cmpstr(one, ==, record);
    g_assert_cmpstr(two, ==, replay);
    check_safe(m);
    machine_free(m);
}

static void test_plain(struct fixture *f, gconstpointer data)
{
    check("-nodefaults -m 1G",
          "-nodefaults -m 1G -rtc base=utc -monitor none" RECORD_END,
          "-nodefaults -m 1G -rtc base=utc" REPLAY_END("1073741824"));
    check("-nodefaults -snapshot -smp 2,cores=2 -m 100 -rtc base=2001-01-01",
          "-nodefaults -smp 2,cores=2 -m 100 -rtc base=2001-01-01 -monitor none"
          RECORD_END,
          "-nodefaults -smp 2,cores=2 -m 100 -rtc base=2001-01-01"
          REPLAY_END("104857600"));
    /* What QEMU adds by itself is said, so that both have it. */
    check("",
          "-serial null -parallel null -nic user,id=rr-network0 "
          "-object filter-replay,id=rr-filter0,netdev=rr-network0 "
          "-rtc base=utc -monitor none" RECORD_END,
          "-serial null -parallel null "
          "-nic user,restrict=on,id=rr-network0 "
          "-object filter-replay,id=rr-filter0,netdev=rr-network0 "
          "-rtc base=utc" REPLAY_END("134217728"));
}

/* q35 is without its CD drive, and has all else that QEMU would give it. */
static void test_q35(struct fixture *f, gconstpointer data)
{
    static const char *const own[] = {
        "-M q35 -vga cirrus", "-machine pc-q35-7.2 -device cirrus-vga",
    };
    g_autofree char *text = NULL;
    struct machine *m = parse("-M q35 -nographic", NULL);

    text = join(m->record);
    g_assert_nonnull(m->note);
    g_assert_true(g_str_has_prefix(text, "-nodefaults -vga std "
                                   "-serial stdio -parallel null -nic "));
    machine_free(m);
    for (unsigned i = 0; i < G_N_ELEMENTS(own); i++) {
        g_autofree char *line = NULL;

        m = parse(own[i], NULL);
        line = join(m->record);
        g_assert_nonnull(strstr(line, "-nodefaults "));
        g_assert_null(strstr(line, "-vga std"));
        machine_free(m);
    }
    m = parse("-nodefaults -M q35", NULL);
    g_assert_null(m->note);
    machine_free(m);
    m = parse("-M pc", NULL);
    g_assert_null(m->note);
    machine_free(m);
}

static void test_files(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    struct machine *m = parse("-nodefaults -kernel a,b~c -append x=/dev/sda,1",
                              &error);
    const struct machine_file *file;
    g_autofree char *text = NULL;

    g_assert_no_error(error);
    text = join(m->replay);
    g_assert_true(g_str_has_prefix(
        text, "-nodefaults -kernel recording/files/0-a_b_c "
        "-append x=/dev/sda,1 "));
    g_assert_cmpuint(m->files->len, ==, 1);
    file = g_ptr_array_index(m->files, 0);
    g_assert_cmpstr(file->source, ==, "a,b c");
    g_assert_cmpstr(file->name, ==, "files/0-a_b_c");
    check_safe(m);
    machine_free(m);
}

static void test_disks(struct fixture *f, gconstpointer data)
{
    static const char ide[] =
        "-nodefaults -drive file=recording/files/0-disk.img,format=raw,"
        "if=none,id=rr-image0,snapshot=on "
        "-drive if=ide,index=1,media=disk,driver=blkreplay,image=rr-image0 "
        "-rtc base=utc";
    static const char flash[] =
        "-nodefaults -drive file=recording/files/0-disk.img,format=raw,"
        "if=pflash,unit=1,snapshot=on "
        "-rtc base=utc";
    static const char named[] =
        "-nodefaults -drive file=recording/files/0-disk.img,format=raw,"
        "if=none,id=rr-image0,snapshot=on "
        "-drive if=none,id=d,driver=blkreplay,image=rr-image0 "
        "-device ide-hd,drive=d -rtc base=utc";
    g_autofree char *ide_record = g_strconcat(ide, " -monitor none"
                                              RECORD_END, NULL);
    g_autofree char *ide_replay = g_strconcat(ide, REPLAY_END("134217728"),
                                              NULL);
    g_autofree char *flash_record = g_strconcat(flash, " -monitor none"
                                                RECORD_END, NULL);
    g_autofree char *flash_replay = g_strconcat(
        flash, REPLAY_END("134217728"), NULL);
    g_autofree char *named_record = g_strconcat(named, " -monitor none"
                                                RECORD_END, NULL);
    g_autofree char *named_replay = g_strconcat(
        named, REPLAY_END("134217728"), NULL);

    check("-nodefaults -hdb disk.img", ide_record, ide_replay);
    check("-nodefaults -drive file=disk.img,if=pflash,unit=1", flash_record,
          flash_replay);
    check("-nodefaults -drive cache=none,file=disk.img,if=none,id=d,"
          "snapshot=on,aio=native -device ide-hd,drive=d", named_record,
          named_replay);
}

static void test_outside(struct fixture *f, gconstpointer data)
{
    check("-nodefaults -netdev tap,id=n,ifname=t,script=/x "
          "-device e1000,netdev=n -serial mon:stdio -chardev "
          "socket,id=c,path=/s,server=on -serial chardev:c -vnc :1",
          "-nodefaults -netdev tap,id=n,ifname=t,script=/x "
          "-object filter-replay,id=rr-filter0,netdev=n "
          "-device e1000,netdev=n -monitor none -serial stdio -chardev "
          "socket,id=c,server=on,path=/s -serial chardev:c -vnc :1 "
          "-rtc base=utc" RECORD_END,
          "-nodefaults -netdev user,restrict=on,id=n "
          "-object filter-replay,id=rr-filter0,netdev=n "
          "-device e1000,netdev=n -serial null -chardev null,id=c "
          "-serial chardev:c -rtc base=utc" REPLAY_END("134217728"));
    /* A copy of a guest that has its network elsewhere */
    check("-nodefaults -netdev null,id=n -device e1000,netdev=n",
          "-nodefaults -netdev null,id=n "
          "-object filter-replay,id=rr-filter0,netdev=n "
          "-device e1000,netdev=n -rtc base=utc -monitor none" RECORD_END,
          "-nodefaults -netdev null,id=n "
          "-object filter-replay,id=rr-filter0,netdev=n "
          "-device e1000,netdev=n -rtc base=utc" REPLAY_END("134217728"));
    check("-nographic -parallel none -nic none",
          "-parallel none -nic none -serial stdio -rtc base=utc -monitor none "
          "-display none" RECORD_END,
          "-parallel none -nic none -serial null -rtc base=utc"
          REPLAY_END("134217728"));
}

static void test_refused(struct fixture *f, gconstpointer data)
{
    /* A command line, and what the error names */
    static const char *const cases[][2] = {
        { "-enable-kvm", "for TCG" },
        { "-accel kvm", "kvm" },
        { "-machine q35,accel=kvm", "kvm" },
        { "-smp 33", "from 1 to 32" },
        { "-smp cpus=1,maxcpus=4", "plugged in later" },
        { "-rtc base=localtime", "base=utc" },
        { "-cpu host", "-cpu max" },
        { "-device nvme,drive=d", "nvme" },
        { "-device usb-ehci", "usb-ehci" },
        { "-device virtio-serial", "-serial" },
        { "-device virtio-balloon", "virtio-balloon" },
        { "-device floppy,drive=d", "-hda" },
        { "-device branch-trace,id=x", "leave it out" },
        { "-device isa-serial,chardev=c", "-serial chardev:c" },
        { "-device loader,file=/x", "file of this host" },
        { "-device {\"driver\":\"e1000\"}", "without JSON" },
        { "-vga virtio", "-vga std" },
        { "-usb", "uhci" },
        { "-virtfs local,path=/x", "disk image" },
        { "-fsdev local,path=/x", "disk image" },
        { "-netdev tap,id=n,vhost=on", "vhost" },
        { "-netdev vhost-user,id=n", "vhost" },
        { "-netdev user", "no id" },
        { "-nic user,model=vfio-pci", "vfio" },
        { "-net user", "-nic" },
        { "-object rng-random,id=r,filename=/dev/random", "rng-builtin" },
        { "-object secret,id=s,file=/x", "secret" },
        { "-blockdev x", "-drive" },
        { "-drive file=disk.img,if=scsi", "if=ide" },
        { "-drive file=disk.img,iops=3", "iops" },
        { "-drive file=nowhere.img", "nowhere.img" },
        { "-drive file=disk.img,format=vdi", "raw and qcow2" },
        { "-fda disk.img", "-hda" },
        { "-m 1G,slots=2,maxmem=2G", "-m 1G" },
        { "-m lots", "not a size" },
        { "-icount shift=7", "-icount" },
        { "-S", "switched on" },
        { "-loadvm x", "switched on" },
        { "-s", "--gdb" },
        { "-plugin evil.so", "-plugin" },
        { "-kernel", "value is missing" },
        { "-kernel nowhere", "nowhere" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_null(parse(cases[i][0], &error));
        g_assert_nonnull(error);
        if (!strstr(error->message, cases[i][1])) {
            g_error("%s: %s", cases[i][0], error->message);
        }
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/machine/plain", struct fixture, NULL, set_up, test_plain,
               tear_down);
    g_test_add("/machine/q35", struct fixture, NULL, set_up, test_q35,
               tear_down);
    g_test_add("/machine/files", struct fixture, NULL, set_up, test_files,
               tear_down);
    g_test_add("/machine/disks", struct fixture, NULL, set_up, test_disks,
               tear_down);
    g_test_add("/machine/outside", struct fixture, NULL, set_up,
               test_outside, tear_down);
    g_test_add("/machine/refused", struct fixture, NULL, set_up,
               test_refused, tear_down);
    return g_test_run();
}
