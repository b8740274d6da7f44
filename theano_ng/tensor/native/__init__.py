"""Native code of Ops. Each family of Ops has one extension module, which is loaded when it is first needed."""
